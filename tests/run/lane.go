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
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A lane says what may run in parallel with a suite. A suite runs alone unless it boots
// machines, of which one runs at a time, or may run in parallel with those that do and with
// its like. Of the suites that name one resource, one runs at a time.
const (
	alone    = ""
	machines = "machines"
	parallel = "parallel"
)

// A lap is one suite's outcome, as a parallel lane sends it. Each parallel lane is another
// process, so that each lane can end the processes that its own suites leave behind.
type lap struct {
	Index       int // in the list of suites
	Results     []lapResult
	Took, CPU   time.Duration
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
	l := lap{Index: index, Took: out.took, CPU: out.cpu, Interrupted: out.interrupted}
	for _, r := range out.results {
		l.Results = append(l.Results, lapResult{r.suite, r.name, r.status, r.reason, r.detail, r.wide})
	}
	return l
}

func (l lap) outcome() outcome {
	out := outcome{took: l.Took, cpu: l.CPU, interrupted: l.Interrupted}
	for _, r := range l.Results {
		out.results = append(out.results, result{r.Suite, r.Name, r.Status, r.Reason, r.Detail, r.Wide})
	}
	return out
}

// splitLanes returns the indices of the suites that run alone, of those that boot machines,
// and of those that run in parallel, the longest deadlines first so that none is left for the
// end. If fewer than two suites may run at once, all run alone.
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
	if len(second) > 0 && len(first)+len(second) > 1 {
		slices.SortStableFunc(second, func(a, b int) int {
			return int(suites[b].deadline - suites[a].deadline)
		})
		return single, first, second
	}
	single = nil
	for i := range suites {
		single = append(single, i)
	}
	return single, nil, nil
}

// There is a parallel lane for each processor and two more, up to a limit: most suites wait
// for a third of their time or more.
const lanesMax = 4

// The suites that boot machines, one after the other, take the longest: all others give way to
// them. Those that share a resource come next. The fillers may run at any time beside others.
const (
	sharedNiceness = 4
	fillerNiceness = 12
)

// parallelLanes are the processes that run suites in parallel with this one. Each takes the
// next suite when it has ended one, but none that needs what a running suite has.
type parallelLanes struct {
	suites []suite
	index  []int    // of those that the lanes run
	laps   chan lap // closed when all lanes have run what they could
	lanes  []*exec.Cmd
	inputs []io.Closer // a lane ends when its input is closed

	mu    sync.Mutex
	freed *sync.Cond // a suite has ended
	queue []int      // indices of suites that no lane has taken
	busy  map[string]bool
}

// startLanes starts processes that run the suites of index. No suite runs in this process
// yet.
func startLanes(o options, suites []suite, index []int) (*parallelLanes, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := newParallelLanes(suites, index)
	var running sync.WaitGroup
	for range min(runtime.NumCPU()+2, lanesMax, len(index)) {
		cmd := exec.Command(self, "-lane", "-suites", o.suites, "-logs", o.logs)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals come from here
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			p.stop()
			return nil, err
		}
		p.lanes, p.inputs = append(p.lanes, cmd), append(p.inputs, in)
		spared.Store(cmd.Process.Pid, true)
		running.Add(1)
		go func() {
			defer running.Done()
			p.drive(in, out)
		}()
	}
	go func() {
		running.Wait()
		close(p.laps)
	}()
	return p, nil
}

func newParallelLanes(suites []suite, index []int) *parallelLanes {
	p := &parallelLanes{suites: suites, index: index, queue: slices.Clone(index),
		laps: make(chan lap, len(index)), busy: map[string]bool{}}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// take takes the first suite of the queue whose resource is free, and waits for one. It
// returns false when the queue is empty.
func (p *parallelLanes) take() (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 {
		for n, i := range p.queue {
			if r := p.suites[i].resource; r == "" || !p.busy[r] {
				p.queue = slices.Delete(p.queue, n, n+1)
				p.busy[r] = true
				return i, true
			}
		}
		p.freed.Wait()
	}
	return 0, false
}

// release frees the resource of a suite that has ended, or whose lane has.
func (p *parallelLanes) release(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[p.suites[i].resource] = false
	p.freed.Broadcast()
}

// drive gives one lane's process a suite after the other, and passes its laps on. It returns
// when no suite remains, or when the process says anything else: then the suite that it ran
// is lost, and other lanes run the rest.
func (p *parallelLanes) drive(to io.WriteCloser, from io.Reader) {
	in := bufio.NewReader(from)
	for good := true; good; {
		i, more := p.take()
		if !more {
			return
		}
		var next lap
		if next, good = askLane(to, in, i); good {
			p.laps <- next
		}
		p.release(i)
	}
	to.Close() // the lane did not do as it was told
}

func askLane(to io.Writer, in *bufio.Reader, i int) (next lap, good bool) {
	if _, err := fmt.Fprintln(to, i); err != nil {
		return next, false
	}
	line, err := in.ReadBytes('\n')
	return next, err == nil && json.Unmarshal(line, &next) == nil && next.Index == i
}

// poll reports the laps that have arrived.
func (p *parallelLanes) poll(outs []outcome, rep *reporter) {
	for {
		select {
		case next, ok := <-p.laps:
			if !ok {
				return
			}
			p.report(next, outs, rep)
		default:
			return
		}
	}
}

// wait reports the remaining laps. It reports as failed the suites that no lane has run to
// its end.
func (p *parallelLanes) wait(outs []outcome, rep *reporter, stop <-chan os.Signal) error {
	for done := false; !done; {
		select {
		case next, ok := <-p.laps:
			if done = !ok; ok {
				p.report(next, outs, rep)
			}
		case <-stop:
			p.stop()
			return errors.New("interrupted in a parallel lane")
		}
	}
	p.end()
	for _, i := range p.index {
		if s := p.suites[i]; len(outs[i].results) == 0 {
			outs[i].results = []result{{suite: s.name, name: suiteItself, status: failed,
				reason: "the runner's parallel lane ended before it"}}
			rep.reportSuite(s, outs[i])
		}
	}
	return nil
}

func (p *parallelLanes) report(next lap, outs []outcome, rep *reporter) {
	outs[next.Index] = next.outcome()
	rep.reportSuite(p.suites[next.Index], outs[next.Index])
}

// stop ends the lanes and their running suites.
func (p *parallelLanes) stop() {
	p.mu.Lock()
	p.queue = nil // no lane takes another
	p.freed.Broadcast()
	p.mu.Unlock()
	for _, cmd := range p.lanes {
		syscall.Kill(cmd.Process.Pid, syscall.SIGTERM)
	}
	p.end()
}

// end waits until the lanes have ended. None does before, so that the processor time of its
// suites does not count for the one that runs in this process then.
func (p *parallelLanes) end() {
	for _, in := range p.inputs {
		in.Close()
	}
	for _, cmd := range p.lanes {
		_ = cmd.Wait() // reapEnded may have taken its status
		spared.Delete(cmd.Process.Pid)
	}
}

// runLane is a parallel lane: it runs the suites whose indices it reads, and writes laps.
func runLane(o options, in io.Reader, out io.Writer, stop <-chan os.Signal) error {
	suites, err := readSuites(o.suites)
	if err != nil {
		return err
	}
	becomeReaper()
	to := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		i, err := strconv.Atoi(lines.Text())
		if err != nil || i < 0 || i >= len(suites) {
			return fmt.Errorf("%q is the index of no suite", lines.Text())
		}
		os.Remove(o.firstLog(suites[i]))
		suites[i].niceness = sharedNiceness
		if suites[i].resource == "" {
			suites[i].niceness = fillerNiceness
		}
		outcome := suites[i].run(o.log(suites[i]), stop)
		if err := to.Encode(newLap(i, outcome)); err != nil {
			return err
		}
		if outcome.interrupted {
			return fmt.Errorf("interrupted in suite %s", suites[i].name)
		}
	}
	return nil
}
