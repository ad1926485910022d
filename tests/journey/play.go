// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skep/grid/hub"
	"skep/tests/watch"
)

// A play is one run of the master on a cluster, and the hub's events of it. The
// lock guards events.
type play struct {
	c      *cluster
	run    *watch.Actor
	calls  int    // at least
	over   string // a file that ends the run; "": it ends after its calls
	stream *hub.Stream

	lock   sync.Mutex
	events []hub.Event
}

// startPlay starts a master with a number of calls at a time, each of which takes some
// milliseconds, until there is the file over; if that is "", with as many in all.
func (c *cluster) startPlay(calls, milliseconds int, over string) (*play, error) {
	client := hub.NewClient(hub.ControlSocket(filepath.Join(c.state, "hub")))
	stream, err := client.Events(context.Background())
	if err != nil {
		return nil, err
	}
	p := &play{c: c, calls: calls, over: over, stream: stream}
	go p.followEvents()
	args := []string{"weigh", strconv.Itoa(calls), strconv.Itoa(milliseconds)}
	if over != "" {
		os.Remove(over)
		args = append(args, over)
	}
	p.run, err = c.s.start("run", nil, c.masterLine(args...)...)
	return p, err
}

func (c *cluster) masterLine(args ...string) []string {
	return append([]string{c.s.skepPath(), "run", "--state", c.state, "--modules", c.s.o.modules, "--", c.s.o.master}, args...)
}

func (p *play) followEvents() {
	for {
		e, err := p.stream.Next()
		if err != nil {
			return
		}
		p.lock.Lock()
		p.events = append(p.events, e)
		p.lock.Unlock()
	}
}

// countEvents returns how many events of that state node had since then.
func (p *play) countEvents(node, state string, since time.Time) (n int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, e := range p.events {
		if e.Type == "call" && e.Name == node && e.State == state && e.Time.After(since) {
			n++
		}
	}
	return n
}

// waitForWork waits until every node has completed a call and runs another, so that there is
// a call to lose.
func (p *play) waitForWork(nodes ...string) error {
	return watch.Poll(later, func() error {
		for _, node := range nodes {
			if p.countEvents(node, hub.CallDone, time.Time{}) == 0 {
				return fmt.Errorf("node %s has done no call", node)
			}
		}
		return nil
	})
}

// waitForRequeue waits until a call that was on node is queued again.
func (p *play) waitForRequeue(node string, since time.Time, limit time.Duration) error {
	return watch.Poll(limit, func() error {
		if p.countEvents(node, hub.CallRequeued, since) == 0 {
			return fmt.Errorf("no call of node %s was queued again within %v: %s", node, limit, p.eventText())
		}
		return nil
	})
}

// eventText lists the events, for a failure's details.
func (p *play) eventText() string {
	p.lock.Lock()
	defer p.lock.Unlock()
	var out strings.Builder
	for _, e := range p.events[max(0, len(p.events)-30):] {
		fmt.Fprintf(&out, "\n%s %s %s %s %d %s", e.Time.Format("05.000"), e.Type, e.State, e.Name, e.Call, e.Text)
	}
	return out.String()
}

var rightAnswers = regexp.MustCompile(`(?m)^(\d+) right, `)

// checkEnd has the run end, which must be a success, and checks on which nodes the retried
// calls had run.
func (p *play) checkEnd(nodes ...string) error {
	if p.over != "" {
		if err := os.WriteFile(p.over, nil, 0o600); err != nil {
			return err
		}
	}
	code, err := p.run.WaitForExit(later)
	p.stream.Close()
	if err != nil {
		return fmt.Errorf("%w%s", err, p.eventText())
	}
	said := p.run.String()
	right := 0
	if found := rightAnswers.FindStringSubmatch(said); found != nil {
		right, _ = strconv.Atoi(found[1])
	}
	if code != 0 || right < p.calls || p.over == "" && right > p.calls {
		return fmt.Errorf("exit code %d%s", code, p.eventText())
	}
	for _, node := range nodes {
		if !strings.Contains(said, "is run again, it was on node "+node) {
			return fmt.Errorf("it does not say that a call of node %s was run again", node)
		}
	}
	return nil
}

// listWorkers lists the processes that a node has started. They have a path of its state
// directory in their arguments or environment.
func (c *cluster) listWorkers(node string) (pids []int) {
	place := c.s.path(node, "agent")
	if node == "here" {
		place = filepath.Join(c.state, "agent")
	}
	for _, place := range []string{place, windowsPath(place)} {
		for _, pid := range append(processesWith(place), processesKnowing(place)...) {
			if !c.s.isActor(pid) && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// isActor reports whether a process is an actor.
func (s *stage) isActor(pid int) bool {
	return slices.ContainsFunc(s.Actors, func(a *watch.Actor) bool { return a.Cmd.Process.Pid == pid })
}

// waitUntilIdle waits until no node has a worker.
func (c *cluster) waitUntilIdle(limit time.Duration) error {
	return watch.Poll(limit, func() error {
		for _, node := range []string{"here", "second"} {
			if left := c.listWorkers(node); len(left) > 0 {
				return fmt.Errorf("node %s still has the processes %v", node, describeProcesses(left))
			}
		}
		return nil
	})
}
