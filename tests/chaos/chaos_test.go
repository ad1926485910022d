// SPDX-License-Identifier: MIT

// Package chaos kills and stops hubs and agents at random moments of a run, and compares what the
// run's master saw with what its workers did.
package chaos

import (
	"bufio"
	"bytes"
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
)

const (
	calls   = 2000
	window  = 20   // of each of the master's two threads
	pause   = 1000 // us; a call takes up to four times that
	kills   = 4
	runTime = 4 * time.Minute
)

// A scene is a hub, an agent and one run.
type scene struct {
	t          *testing.T
	build, dir string
	address    string
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
	args := append([]string{"join", s.address, "--state", s.path("agent"), "--slots", "2", "--allow-write", s.path("log")}, token...)
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

// play kills or stops the hub or the agent `kills` times, after random numbers of calls.
func (s *scene) play(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	s.openLog()
	s.startAgent("--token", s.startHub())
	r, w := io.Pipe()
	run := s.start(w, "run", "--state", s.path("hub"), "--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "master"), strconv.Itoa(calls), strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
	y := &tally{ended: map[int]int{}, done: make(chan struct{})}
	go y.read(r)
	over := make(chan error, 1)
	go func() { over <- run.Wait(); w.Close() }()
	committed := map[int]int{} // runs of calls that had ended at a kill
	for at := range kills {
		if !s.awaitEnded(y, calls*at/kills+random.IntN(calls/kills)) {
			break
		}
		ended := y.snapshot()
		runs := s.runs()
		for _, number := range ended {
			committed[number] = runs[number]
		}
		s.disturb(random.IntN(6), time.Duration(random.IntN(300))*time.Millisecond)
	}
	s.awaitEnded(y, calls)
	<-y.done
	if err := <-over; err != nil {
		s.t.Errorf("skep run: %v", err)
	}
	s.judge(y, committed)
}

// disturb kills the agent or the hub, and starts it again after a time, or stops one for
// that time.
func (s *scene) disturb(how int, after time.Duration) {
	s.t.Helper()
	switch how {
	case 0:
		s.t.Log("the agent is killed")
		killNow(s.agent)
		s.startAgent()
		return
	case 1, 2:
		cmd, name := s.agent, "the agent"
		if how == 2 {
			cmd, name = s.hub, "the hub"
		}
		if s.long { // so long that its peers take it for dead
			after *= 80
		}
		s.t.Logf("%s is stopped for %v", name, after)
		cmd.Process.Signal(syscall.SIGSTOP)
		<-time.After(after)
		cmd.Process.Signal(syscall.SIGCONT)
		return
	}
	s.t.Logf("the hub is killed, for %v", after)
	killNow(s.hub)
	<-time.After(after)
	s.startHub()
}

// judge compares what the master saw with what workers did.
func (s *scene) judge(y *tally, committed map[int]int) {
	s.t.Helper()
	if want := fmt.Sprintf("%d right, 0 wrong, 0 failed", calls); y.last != want {
		s.t.Errorf("the master says %q, not %q", y.last, want)
	}
	for _, text := range y.wrong[:min(3, len(y.wrong))] {
		s.t.Error(text)
	}
	runs := s.runs()
	again := 0
	for number := range calls {
		again += runs[number] - 1
		if y.ended[number] != 1 {
			s.t.Errorf("call %d ended %d times", number, y.ended[number])
		}
		if before, ok := committed[number]; ok && runs[number] != before {
			s.t.Errorf("call %d had ended and was run again: %d runs, then %d", number, before, runs[number])
		}
	}
	s.t.Logf("%d calls, %d of them ended before a kill, %d runs more than calls", calls, len(committed), again)
}

// A log shows what the programs print if the test fails.
type testLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l := &testLog{}
	s := &scene{t: t, build: built.Folder(t, "make test T=chaos"), dir: dir, address: "127.0.0.1:0", output: l}
	t.Cleanup(func() {
		if t.Failed() {
			l.mu.Lock()
			t.Logf("%s", l.all.String()[max(0, l.all.Len()-8000):])
			l.mu.Unlock()
		}
		os.RemoveAll(dir)
	})
	os.Chmod(dir, 0o711)
	return s
}

// The hub, and sometimes the agent, is killed or stopped while thousands of small calls are
// made. Each ends once and right, and none that had ended is run again. SKEP_CHAOS_SEED repeats a run;
// SKEP_CHAOS_TIME goes on with other seeds for so long.
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
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newScene(t)
			s.long = long > 0
			s.play(seed)
		}) || !time.Now().Before(end) {
			return
		}
	}
}
