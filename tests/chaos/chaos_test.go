// SPDX-License-Identifier: MIT

// Package chaos kills and stops hubs and agents, cuts the network and fills disks, at random
// moments of a run, and compares what the run's master saw with what its workers did.
package chaos

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/tests/built"
	"skep/tests/watch"
)

const (
	calls   = 2000
	window  = 20   // of each of the master's two threads
	pause   = 1000 // us; a call takes up to four times that
	runTime = 4 * time.Minute
	fullFor = time.Second // at least: calls that need the disk are tried again and again
)

// isLarge reports whether a call of the master has data that no message can hold, as in master.c.
func isLarge(number int) bool { return number%16 == 3 }

// A scene is a hub, an agent and one run.
type scene struct {
	t          *testing.T
	build, dir string
	address    string
	net        *proxy // between agent and hub
	disks      bool   // hub and agent have disks of their own
	hub, agent *exec.Cmd
	output     io.Writer
	long       bool // it may take more time than a test
}

// start starts a program of skep that leaves nothing behind.
func (s *scene) start(stdout io.Writer, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.build, "bin", "skep"), args...)
	cmd.Stdout, cmd.Stderr = stdout, s.output
	cmd.Env = append(os.Environ(), "SKEP_ERRORS=return", "HOME="+s.dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { killNow(cmd) })
	return cmd
}

func killNow(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

var joinLine = regexp.MustCompile(`SKEP_TOKEN=(\S+) skep join (\S+)`)

// startHub returns a join token when the hub listens.
func (s *scene) startHub() string {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.hub = s.start(w, "up", "--state", s.path("hub"), "--listen", s.address, "--no-agent")
	w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := joinLine.FindStringSubmatch(lines.Text()); m != nil {
			s.address = m[2]
			go func() { io.Copy(s.output, r); r.Close() }()
			return m[1]
		}
	}
	s.t.Fatal("the hub ended before it printed a join command")
	return ""
}

func (s *scene) startAgent(token ...string) {
	s.t.Helper()
	if s.net == nil {
		s.net = newProxy(s.t, s.address)
	}
	args := append([]string{"join", s.net.listen.Addr().String(), "--state", s.path("agent"), "--slots", "2", "--allow-write", s.path("log")}, token...)
	if len(token) == 0 {
		args = append(args[:1], args[2:]...) // it knows its hub
	}
	s.agent = s.start(s.output, args...)
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// A tally is what the master has printed.
type tally struct {
	mu    sync.Mutex
	ended map[int]int
	wrong []string
	last  string
	done  chan struct{}
}

func (y *tally) read(r io.Reader) {
	defer close(y.done)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		words := strings.SplitN(text, " ", 3)
		y.mu.Lock()
		if number, err := strconv.Atoi(words[min(1, len(words)-1)]); words[0] == "ended" && err == nil {
			y.ended[number]++
			if words[2] != "" {
				y.wrong = append(y.wrong, text)
			}
		} else {
			y.last = text
		}
		y.mu.Unlock()
	}
}

// snapshot returns the numbers of the calls that have ended.
func (y *tally) snapshot() []int {
	y.mu.Lock()
	defer y.mu.Unlock()
	var list []int
	for number := range y.ended {
		list = append(list, number)
	}
	return list
}

// runs counts how often each call was run.
func (s *scene) runs() map[int]int {
	s.t.Helper()
	b, err := os.ReadFile(s.path("log/runs"))
	if err != nil {
		s.t.Fatal(err)
	}
	n := map[int]int{}
	for word := range strings.FieldsSeq(string(b)) {
		number, err := strconv.Atoi(word)
		if err != nil {
			s.t.Fatalf("the log has %q", word)
		}
		n[number]++
	}
	return n
}

// awaitEnded waits until so many calls have ended. false: the run is over.
func (s *scene) awaitEnded(y *tally, n int) bool {
	late := load.NewTimer(runTime, load.Scale)
	defer late.Stop()
	for len(y.snapshot()) < n {
		select {
		case <-y.done:
			return false
		case <-late.C:
			s.t.Fatalf("only %d of %d calls have ended", len(y.snapshot()), n)
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// openLog makes the file in which workers note what they run.
func (s *scene) openLog() {
	s.t.Helper()
	if err := os.MkdirAll(s.path("log"), 0o777); err != nil {
		s.t.Fatal(err)
	}
	os.WriteFile(s.path("log/runs"), nil, 0o666)
	os.Chmod(s.path("log"), 0o777) // the agent of root runs programs as nobody
	os.Chmod(s.path("log/runs"), 0o666)
}

// A disturbance is what happens to a scene for a time.
type disturbance int

const (
	agentKilled disturbance = iota
	agentStopped
	hubStopped
	hubKilled
	netCut
	netFrozen
	hubDiskFull
	agentDiskFull
	nodeAway
)

// without lists the disturbances that need no disks, as often as they shall happen.
var without = []disturbance{agentKilled, agentStopped, hubStopped, hubKilled, hubKilled, hubKilled, netCut, netFrozen, nodeAway}

// await waits until f returns true.
func (s *scene) await(what string, f func() bool) {
	s.t.Helper()
	late := load.NewTimer(runTime, load.Scale)
	defer late.Stop()
	for !f() {
		select {
		case <-late.C:
			s.t.Fatalf("in vain waited for %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *scene) awaitFile(name string) {
	s.t.Helper()
	s.await(name, func() bool { info, err := os.Stat(name); return err == nil && info.Size() > 0 })
}

// awaitRuns waits until so many calls have been run.
func (s *scene) awaitRuns(n int) {
	s.t.Helper()
	s.await(fmt.Sprint(n, " calls"), func() bool { return len(s.runs()) >= n })
}

// awaitNode waits until the agent's node is up.
func (s *scene) awaitNode() {
	s.t.Helper()
	s.await("a node", func() bool {
		out, code := s.skep("nodes", "--state", s.path("hub"))
		return code == 0 && strings.Contains(out, " up ")
	})
}

// awaitGone waits until a process has ended; whoever adopted it may not have reaped it yet.
func (s *scene) awaitGone(pid string) {
	s.t.Helper()
	s.await("the end of process "+pid, func() bool {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// play makes `total` calls and disturbs them, after random numbers of calls.
func (s *scene) play(random *rand.Rand, total int, list []disturbance) {
	s.openLog()
	if s.disks {
		mountDisk(s.t, s.path("hub"))
		mountDisk(s.t, s.path("agent"))
	}
	s.startAgent("--token", s.startHub())
	r, w := io.Pipe()
	run := s.start(w, "run", "--state", s.path("hub"), "--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "master"), strconv.Itoa(total), strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
	y := &tally{ended: map[int]int{}, done: make(chan struct{})}
	go y.read(r)
	over := make(chan error, 1)
	go func() { over <- run.Wait(); w.Close() }()
	committed := map[int]int{} // runs of calls that had ended at a disturbance
	for at, how := range list {
		if !s.awaitEnded(y, total*at/len(list)+random.IntN(total/len(list))) {
			break
		}
		ended := y.snapshot()
		runs := s.runs()
		for _, number := range ended {
			committed[number] = runs[number]
		}
		s.disturb(how, time.Duration(random.IntN(300))*time.Millisecond, way(1+random.IntN(3)))
	}
	s.awaitEnded(y, total)
	<-y.done
	s.judge(y, total, <-over, committed)
}

// disturb does something to the scene, and ends it after a time.
func (s *scene) disturb(how disturbance, after time.Duration, w way) {
	s.t.Helper()
	if s.long && how != hubKilled { // so long that peers take one for dead
		after *= 80
	}
	pass := func() { <-time.After(after) }
	switch how {
	case agentKilled:
		s.t.Log("the agent is killed")
		killNow(s.agent)
		s.startAgent()
	case agentStopped, hubStopped:
		cmd, name := s.agent, "the agent"
		if how == hubStopped {
			cmd, name = s.hub, "the hub"
		}
		s.t.Logf("%s is stopped for %v", name, after)
		cmd.Process.Signal(syscall.SIGSTOP)
		pass()
		cmd.Process.Signal(syscall.SIGCONT)
	case hubKilled:
		s.t.Logf("the hub is killed, for %v", after)
		killNow(s.hub)
		pass()
		s.startHub()
	case netCut:
		s.t.Logf("the network is cut for %v", after)
		s.net.cut()
		pass()
		s.net.heal()
	case nodeAway:
		s.t.Logf("the node is away for %v", after)
		s.goAway()
		pass()
		s.net.heal()
	case netFrozen:
		s.t.Logf("the network lets nothing through for %v (directions %d)", after, w)
		s.net.freeze(w)
		pass()
		s.net.heal()
	case hubDiskFull, agentDiskFull:
		disk := s.path("agent")
		if how == hubDiskFull {
			disk = s.path("hub")
		}
		s.t.Logf("the disk of the %s is full for %v", filepath.Base(disk), after)
		after += fullFor
		heal := fillDisk(s.t, disk)
		pass()
		heal()
	}
}

// diskReason is in the error of each call that a full disk ended.
var diskReason = regexp.MustCompile(`disk is full|no space left on device`)

// judge compares what the master saw with what workers did. Only a full disk may end a call.
func (s *scene) judge(y *tally, total int, exit error, committed map[int]int) {
	s.t.Helper()
	failed := len(y.wrong)
	if want := fmt.Sprintf("%d right, 0 wrong, %d failed", total-failed, failed); y.last != want {
		s.t.Errorf("the master says %q, not %q", y.last, want)
	}
	if (exit == nil) != (failed == 0) {
		s.t.Errorf("%d calls failed, and skep run ended with %v", failed, exit)
	}
	for _, text := range y.wrong {
		if !s.disks || !diskReason.MatchString(text) {
			s.t.Error(text)
		}
	}
	runs := s.runs()
	again := 0
	for number := range total {
		again += runs[number] - 1
		if y.ended[number] != 1 {
			s.t.Errorf("call %d ended %d times", number, y.ended[number])
		}
		if before, ok := committed[number]; ok && runs[number] != before {
			s.t.Errorf("call %d had ended and was run again: %d runs, then %d", number, before, runs[number])
		}
	}
	s.t.Logf("%d calls, %d of them failed, %d ended before a disturbance, %d runs more than calls", total, failed, len(committed), again)
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	said := &watch.Text{}
	s := &scene{t: t, build: built.Folder(t, "make test T=chaos"), dir: dir, address: "127.0.0.1:0", output: said}
	t.Cleanup(func() {
		if t.Failed() {
			all := said.String()
			t.Logf("%s", all[max(0, len(all)-8000):])
		}
		os.RemoveAll(dir)
	})
	os.Chmod(dir, 0o711)
	return s
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// pick returns n of a list, each as often as it may be.
func pick(random *rand.Rand, list []disturbance, n int) (picked []disturbance) {
	for range n {
		picked = append(picked, list[random.IntN(len(list))])
	}
	return picked
}

// Hub and agent are killed or stopped, and the network between them fails, while thousands of
// calls are made. Each ends once and right, and none that had ended is run again.
// SKEP_CHAOS_SEED repeats a run; SKEP_CHAOS_TIME goes on with other seeds for so long, with
// full disks too if it is root that can mount some.
func TestKilled(t *testing.T) {
	seed := uint64(1)
	if text := os.Getenv("SKEP_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	long, _ := time.ParseDuration(os.Getenv("SKEP_CHAOS_TIME"))
	for end := time.Now().Add(long); ; seed++ {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s, random := newScene(t), newRandom(seed)
			list := without
			if s.long = long > 0; s.long && seed%2 == 0 && os.Geteuid() == 0 {
				s.disks = true
				list = append(list[:len(list):len(list)], hubDiskFull, agentDiskFull)
			}
			s.play(random, calls, pick(random, list, 4))
		})
		if !ok || !time.Now().Before(end) {
			return
		}
	}
}

// The network between hub and agent is cut, and lets nothing through in one direction and in
// both, without an end of a connection.
func TestNetworkFails(t *testing.T) {
	newScene(t).play(newRandom(1), calls/2, []disturbance{netCut, netFrozen, hubKilled, netFrozen, netCut})
}

// The disks of hub and agent are full for a time. Calls fail with this reason, or end right.
func TestDiskIsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts disks")
	}
	s := newScene(t)
	s.disks = true
	s.play(newRandom(1), calls/2, []disturbance{hubDiskFull, agentDiskFull, hubKilled, hubDiskFull})
}
