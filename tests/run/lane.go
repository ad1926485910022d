// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
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

// A lane says what may run in parallel with a suite. A suite runs alone unless it boots
// machines, which do not use all processors all the time, or may run in parallel with those
// that do.
const (
	alone    = ""
	machines = "machines"
	parallel = "parallel"
)

// A lap is one suite's outcome, as the second lane sends it. The second lane is another
// process, so that each lane can end the processes that its own suites leave behind.
type lap struct {
	Index       int
	Results     []lapResult
	Took, CPU   time.Duration
	Left        []string
	Interrupted bool
}

type lapResult struct {
	Suite, Name string
	Status      status
	Reason      string
	Detail      []string
	Wide        bool
}

func newLap(index int, out outcome) lap {
	l := lap{Index: index, Took: out.took, CPU: out.cpu, Left: out.left, Interrupted: out.interrupted}
	for _, r := range out.results {
		l.Results = append(l.Results, lapResult{r.suite, r.name, r.status, r.reason, r.detail, r.wide})
	}
	return l
}

func (l lap) outcome() outcome {
	out := outcome{took: l.Took, cpu: l.CPU, left: l.Left, interrupted: l.Interrupted}
	for _, r := range l.Results {
		out.results = append(out.results, result{r.Suite, r.Name, r.Status, r.Reason, r.Detail, r.Wide})
	}
	return out
}

// splitLanes returns the indices of the suites that run alone, of those in the first lane and
// of those in the second lane. If a lane has no suite, all suites run alone.
func splitLanes(suites []suite) (single, first, second []int) {
	for i, s := range suites {
		switch s.lane {
		case machines:
			first = append(first, i)
		case parallel:
			second = append(second, i)
		default:
			single = append(single, i)
		}
	}
	if len(first) > 0 && len(second) > 0 {
		return single, first, second
	}
	single = nil
	for i := range suites {
		single = append(single, i)
	}
	return single, nil, nil
}

// A secondLane is the process that runs suites in parallel with this one.
type secondLane struct {
	cmd    *exec.Cmd
	suites []suite
	index  []int // of its suites in the whole list
	laps   chan lap
}

// startLane starts a process that runs the suites of index. No suite runs in this process
// yet.
func startLane(o options, suites []suite, index []int) (*secondLane, error) {
	var list strings.Builder
	for _, i := range index {
		s := suites[i]
		fmt.Fprintf(&list, "%s\t%s\t%d\t%s\n", s.name, s.kind, int(s.deadline/time.Second), s.command)
	}
	file := filepath.Join(o.logs, "parallel.suites")
	if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-lane", "-suites", file, "-logs", o.logs)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals come from here
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &secondLane{cmd: cmd, suites: suites, index: index, laps: make(chan lap, len(index))}
	go l.read(out)
	return l, nil
}

// read passes laps on until the lane's process ends.
func (l *secondLane) read(out io.Reader) {
	defer close(l.laps)
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var lap lap
		if json.Unmarshal(line, &lap) != nil || lap.Index < 0 || lap.Index >= len(l.index) {
			return
		}
		l.laps <- lap
	}
}

// poll reports the laps that have arrived.
func (l *secondLane) poll(outs []outcome, rep *reporter) {
	for {
		select {
		case next, ok := <-l.laps:
			if !ok {
				return
			}
			l.report(next, outs, rep)
		default:
			return
		}
	}
}

// wait reports the remaining laps. If the lane ended early, it reports the suites that were
// not run.
func (l *secondLane) wait(outs []outcome, rep *reporter, stop <-chan os.Signal) error {
	for done := false; !done; {
		select {
		case next, ok := <-l.laps:
			if done = !ok; ok {
				l.report(next, outs, rep)
			}
		case <-stop:
			l.stop()
			return errors.New("interrupted in the second lane")
		}
	}
	_ = l.cmd.Wait() // reapEnded may have taken its status
	for _, i := range l.index {
		if len(outs[i].results) == 0 {
			outs[i].results = []result{{suite: l.suites[i].name, name: suiteItself, status: failed,
				reason: "the runner's second lane ended before it"}}
			rep.reportSuite(l.suites[i], outs[i])
		}
	}
	return nil
}

func (l *secondLane) report(next lap, outs []outcome, rep *reporter) {
	i := l.index[next.Index]
	outs[i] = next.outcome()
	rep.reportSuite(l.suites[i], outs[i])
}

// stop ends the lane and its running suite.
func (l *secondLane) stop() {
	syscall.Kill(l.cmd.Process.Pid, syscall.SIGTERM)
	for range l.laps {
	}
	_ = l.cmd.Wait()
}

// runLane is the second lane: it runs suites one after the other, and writes
// laps.
func runLane(o options, out io.Writer, stop <-chan os.Signal) error {
	suites, err := readSuites(o.suites)
	if err != nil {
		return err
	}
	becomeReaper()
	to := json.NewEncoder(out)
	for i, s := range suites {
		os.Remove(o.firstLog(s))
		outcome := s.run(o.log(s), stop)
		if err := to.Encode(newLap(i, outcome)); err != nil {
			return err
		}
		if outcome.interrupted {
			return fmt.Errorf("interrupted in suite %s", s.name)
		}
	}
	return nil
}
