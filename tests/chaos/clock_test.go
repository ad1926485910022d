// SPDX-License-Identifier: MIT

package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/tests/watch"
)

// A wallClock is CLOCK_REALTIME as one process reads it. Linux has no namespace for that clock, so
// the process's own copy of the vDSO is changed: its clock_gettime makes the system call, and adds
// what the clock is stepped by.
type wallClock struct {
	t       *testing.T
	process *exec.Cmd
	mem     *os.File
	stub    int64 // its address; 0: the clock was not stepped yet
}

// steppedGettime is the code. It has the seconds at stepAt.
var steppedGettime = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME
	0x75, 0x0d, // jne to ret
	0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const (
	stepAt   = 13
	stubRoom = 64 // at the end of the vDSO, where its section headers were
)

func openWallClock(t *testing.T, process *exec.Cmd) *wallClock {
	t.Helper()
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", process.Process.Pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return &wallClock{t: t, process: process, mem: mem}
}

// step sets the clock, as `date -s` does: by is how far it is from the machine's.
func (c *wallClock) step(by time.Duration) {
	c.t.Helper()
	pid := c.process.Process.Pid
	syscall.Kill(pid, syscall.SIGSTOP)
	defer syscall.Kill(pid, syscall.SIGCONT)
	c.awaitStopped(pid)
	if c.stub == 0 {
		c.replaceGettime(pid)
	}
	c.write(c.stub+stepAt, binary.LittleEndian.AppendUint64(nil, uint64(by/time.Second)))
	c.t.Logf("the clock of process %d is %v off", pid, by)
}

// awaitStopped waits until no thread runs code of the vDSO.
func (c *wallClock) awaitStopped(pid int) {
	c.t.Helper()
	for end := time.Now().Add(runTime); ; <-time.After(time.Millisecond) {
		runs := false
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, name := range threads {
			b, _ := os.ReadFile(name)
			runs = runs || !strings.Contains(string(b), ") T ")
		}
		if len(threads) > 0 && !runs {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal("the process does not stop")
		}
	}
}

func (c *wallClock) write(at int64, b []byte) {
	c.t.Helper()
	if _, err := c.mem.WriteAt(b, at); err != nil {
		c.t.Skipf("this kernel lets nobody change the vDSO of a process: %v", err)
	}
}

func (c *wallClock) replaceGettime(pid int) {
	c.t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		c.t.Fatal(err)
	}
	var begin, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			fmt.Sscanf(line, "%x-%x", &begin, &end)
		}
	}
	image := make([]byte, end-begin)
	if _, err := c.mem.ReadAt(image, begin); err != nil {
		c.t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		c.t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		c.t.Fatal(err)
	}
	c.stub = end - stubRoom
	c.write(c.stub, steppedGettime)
	for _, v := range symbols {
		if v.Name == "__vdso_clock_gettime" {
			at := begin + int64(v.Value)
			c.write(at, binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(c.stub-at-5))) // jmp
			return
		}
	}
	c.t.Fatal("the vDSO has no clock_gettime")
}

// The clocks of the hub's and of the node's machine are set an hour forward and back, really, in
// the middle of a run with a deadline: no call is lost, or run twice, and none ends late. The life
// of a token is by the hub's clock. A node whose clock is so far behind that its certificate is
// not valid yet says so when it connects, and comes back once it is set.
func TestClocksAreSet(t *testing.T) {
	const total = 600
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	s.awaitNode()
	onHub, onNode := openWallClock(t, s.hub), openWallClock(t, s.agent)
	line, code := s.skep("user", "add", "--expires", "30m", "--state", s.path("hub"), "ada")
	if code != 0 {
		t.Fatal(line)
	}
	r, w := io.Pipe()
	run := s.start(w, "run", "--state", s.path("hub"), "--deadline", "30m", "--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "master"), strconv.Itoa(total), strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
	y := &tally{ended: map[int]int{}, done: make(chan struct{})}
	go y.read(r)
	over := make(chan error, 1)
	go func() { over <- run.Wait(); w.Close() }()
	for at, step := range []func(){
		func() { onHub.step(time.Hour); s.hubIs(time.Hour); s.tokenExpired(line) },
		func() { onHub.step(0); s.hubIs(0); s.openAccount("ada", line) },
		func() { onHub.step(-time.Hour); s.hubIs(-time.Hour) },
		func() { onHub.step(0); onNode.step(time.Hour) },
		func() { onNode.step(-time.Hour); onHub.step(time.Hour) },
		func() { onNode.step(0); onHub.step(0) },
	} {
		if !s.awaitEnded(y, total*(at+1)/8) {
			t.Fatal("the run ended before the clocks were set")
		}
		step()
	}
	s.awaitEnded(y, total)
	<-y.done
	s.judge(y, total, <-over, nil)
	for number, n := range s.runs() {
		if n != 1 {
			t.Errorf("call %d was run %d times", number, n)
		}
	}
	onNode.step(-3 * time.Hour)
	s.net.cut()
	s.net.heal()
	s.await("the sentence about the clock", func() bool {
		return strings.Contains(s.output.(*watch.Text).String(), "set this machine's clock); tries again")
	})
	onNode.step(0)
	s.awaitNode()
}

// hubIs checks that the hub sees the time that it was set to.
func (s *scene) hubIs(off time.Duration) {
	s.t.Helper()
	s.await("an entry of the ledger at the hub's time", func() bool {
		list := skepJSON[[]engine.Entry](s, "ledger", "--last", "1")
		return len(list) == 1 && (time.Until(list[0].Time)-off).Abs() < 10*time.Minute
	})
}

// tokenExpired checks that a secret opens no account any more, and is not used up by that.
func (s *scene) tokenExpired(line string) {
	s.t.Helper()
	if err := os.WriteFile(s.path("late.line"), []byte(line), 0o600); err != nil {
		s.t.Fatal(err)
	}
	before := strings.Count(s.output.(*watch.Text).String(), "expired")
	if _, code := s.skep("user", "join", s.address, "--token-file", s.path("late.line"), "--state", s.path("late")); code != 4 {
		s.t.Errorf("a token that expired opens an account: exit code %d", code)
	}
	if after := strings.Count(s.output.(*watch.Text).String(), "expired"); after == before {
		s.t.Error("nobody says that the token has expired")
	}
}
