// SPDX-License-Identifier: MIT

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Task describes the work of process 1 of a sandbox.
type Task struct {
	Box       Box
	File      string   // relative to the tree; empty without a mutation
	Text      []byte   // the new contents of the file
	GoDirs    []string // Go packages that must compile
	Runner    string   // the runner, built from the unchanged tree
	Suites    []Trial
	BuildMax  time.Duration
	MemoryMax int64
}

// A Trial is one suite and its make targets.
type Trial struct {
	Name    string
	Kind    string
	Command string
	Needs   []string
	Timeout time.Duration
}

// An Answer is the result of a task.
type Answer struct {
	Outcome string // see below
	Suite   string // the first that did not pass, or did not compile
	Why     string
	Took    map[string]time.Duration // of suites that passed
}

const (
	Survived = "survived" // every suite passed
	Killed   = "killed"   // a test failed
	Hung     = "hung"     // a suite did not end in time
	Broken   = "broken"   // it does not compile
	Faulty   = "error"    // the sandbox or the runner failed, not the mutant
)

// RunInside is process 1 of a sandbox. It reads a task from standard input and writes the
// answer to standard output, and the output of make and suites to standard error.
func RunInside() {
	var t Task
	a := Answer{Outcome: Faulty}
	err := errOutside
	if os.Getpid() == 1 {
		err = json.NewDecoder(os.Stdin).Decode(&t)
	}
	if err == nil {
		err = t.Box.build()
	}
	if err == nil {
		a, err = t.carryOut()
	}
	if err != nil {
		a = Answer{Outcome: Faulty, Why: err.Error()}
	}
	json.NewEncoder(os.Stdout).Encode(a)
}

func (t Task) carryOut() (Answer, error) {
	if t.File != "" {
		path := filepath.Join(t.Box.Tree, t.File)
		if err := os.WriteFile(path, t.Text, 0o644); err != nil {
			return Answer{}, err
		}
	}
	if len(t.GoDirs) > 0 && t.compileGo() != nil {
		return Answer{Outcome: Broken}, nil
	}
	a := Answer{Outcome: Survived, Took: map[string]time.Duration{}}
	for _, s := range t.Suites {
		if len(s.Needs) > 0 && t.runMake(s) != nil {
			a.Outcome, a.Suite = Broken, s.Name
			return a, nil
		}
		began := time.Now()
		outcome, why, err := t.trySuite(s)
		if err != nil || outcome != Survived {
			a.Outcome, a.Suite, a.Why = outcome, s.Name, why
			return a, err
		}
		a.Took[s.Name] = time.Since(began)
	}
	return a, nil
}

// compileGo compiles packages and runs the part of vet that go test runs.
func (t Task) compileGo() error {
	args := []string{"vet", "-atomic", "-bool", "-buildtags", "-directive",
		"-errorsas", "-ifaceassert", "-nilfunc", "-printf", "-stringintconv"}
	for _, dir := range t.GoDirs {
		args = append(args, "./"+dir)
	}
	return t.runCommand(t.BuildMax, "go", args...)
}

func (t Task) runMake(s Trial) error {
	args := append([]string{"--no-print-directory", "-s"}, s.Needs...)
	return t.runCommand(t.BuildMax, "make", args...)
}

var errTimeout = errors.New("not finished in time")

// runCommand runs a program in the tree with limits on time and memory. Then it kills all
// remaining processes.
func (t Task) runCommand(limit time.Duration, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.Box.Tree
	cmd.Env = CleanEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	over := make(chan error, 1)
	done := make(chan struct{})
	go func() { over <- t.watchLimits(limit, done) }()
	err := cmd.Wait()
	close(done)
	endAll()
	if why := <-over; why != nil {
		return why
	}
	return err
}

// watchLimits kills everything if time or memory is exceeded.
func (t Task) watchLimits(limit time.Duration, done <-chan struct{}) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-deadline.C:
			endAll()
			return errTimeout
		case <-tick.C:
		}
		used, count := memoryUsed()
		if used > t.MemoryMax || count > 2000 {
			endAll()
			return fmt.Errorf("ended: %d MiB in %d processes", used>>20, count)
		}
	}
}

// trySuite lets the runner run and judge one suite.
func (t Task) trySuite(s Trial) (outcome, why string, err error) {
	logs := "/tmp/mutants"
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return Faulty, "", err
	}
	seconds := int(s.Timeout / time.Second)
	line := fmt.Sprintf("%s\t%s\t%d\t%s\n", s.Name, s.Kind, seconds, s.Command)
	if err := os.WriteFile(logs+"/suites", []byte(line), 0o644); err != nil {
		return Faulty, "", err
	}
	os.Remove(logs + "/results.tsv")
	// The runner ends a suite at its deadline; this limit is for the runner.
	err = t.runCommand(s.Timeout+time.Minute, t.Runner, "-suites", logs+"/suites", "-logs", logs)
	if err == nil {
		return Survived, "", nil
	}
	if errors.Is(err, errTimeout) {
		return Hung, err.Error(), nil
	}
	text, readErr := os.ReadFile(logs + "/results.tsv")
	if readErr != nil {
		return Killed, "the runner: " + err.Error(), nil // it was ended, or its folder removed
	}
	outcome, why = judgeResults(string(text))
	return outcome, why, nil
}

// judgeResults finds the first failure among results.
func judgeResults(tsv string) (outcome, why string) {
	for _, line := range strings.Split(tsv, "\n") {
		f := strings.SplitN(line, "\t", 4)
		if len(f) < 4 || f[2] != "failed" {
			continue
		}
		if why == "" {
			why = f[1]
		}
		if strings.Contains(f[3], "not finished after its deadline") {
			return Hung, f[3]
		}
	}
	return Killed, why
}

// Run runs a task in a sandbox and waits for its answer.
func Run(t Task, log io.Writer, stop <-chan struct{}) (Answer, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return Answer{}, err
	}
	cmd := exec.Command("/proc/self/exe", "-inside")
	cmd.Stdin = strings.NewReader(string(text))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, log
	cmd.SysProcAttr = sandboxAttr()
	cmd.Env = sandboxEnv(t.Box)
	if err := cmd.Start(); err != nil {
		return Answer{}, fmt.Errorf("%w: %v", errNoSandbox, err)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-stop:
			cmd.Process.Kill()
		case <-ended:
		}
	}()
	err = cmd.Wait()
	close(ended)
	select {
	case <-stop:
		return Answer{}, ErrStopped
	default:
	}
	var a Answer
	if decodeErr := json.Unmarshal([]byte(out.String()), &a); decodeErr != nil {
		return a, fmt.Errorf("the sandbox ended without an answer: %v", err)
	}
	if a.Outcome == Faulty {
		return a, errors.New(a.Why)
	}
	return a, nil
}

var (
	errNoSandbox = errors.New("no namespaces here: run it as root, or allow user namespaces")
	errOutside   = errors.New("this is the inside of a sandbox, and no process 1")
	ErrStopped   = errors.New("stopped")
)

func sandboxEnv(b Box) []string {
	env := append(CleanEnv(os.Environ()), "HOME=/tmp/home", "TMPDIR=/tmp", "GOCACHE="+b.Cache)
	if os.Geteuid() != 0 {
		env = append(env, envUser+"=1")
	}
	return env
}
