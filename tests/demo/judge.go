// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

const (
	callsInAll  = 40
	callsAtEach = 4
)

// A result holds the hub's events of one run. The lock guards shares and session while the
// run is watched.
type result struct {
	code int // of the master
	wall time.Duration

	lock    sync.Mutex
	ended   chan struct{} // closed when the session ends
	session string
	shares  map[string]*share
}

// A share is one node's part of the run.
type share struct {
	name, substrate string
	running, done   int
	sent            uint64 // arguments and pulled blobs
	again           int    // calls that it lost and that ran again
	unproved        int    // results from bee without its proof
	emulated        uint64 // system calls that bee counted
	programs        []string
	times           []time.Duration
}

func newResult() *result {
	return &result{ended: make(chan struct{}), shares: map[string]*share{}}
}

func (r *result) shareOf(e hub.Event) *share {
	if r.shares[e.Node] == nil {
		r.shares[e.Node] = &share{name: cli.CleanText(e.Name), substrate: e.Substrate}
	}
	return r.shares[e.Node]
}

// countEvent counts an event and returns the line to show for it.
func (r *result) countEvent(e hub.Event) string {
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case e.Type == "session" && e.State == "end" && r.session != "" && e.Session == r.session:
		r.endRun()
	case e.Type == "log":
		return cli.CleanText(e.Name) + ": " + cli.CleanText(e.Text)
	case e.Type == "node" && e.State != hub.NodeUp:
		return strings.TrimRight(fmt.Sprintf("node %s is %s: %s", cli.CleanText(e.Name), e.State, cli.CleanText(e.Text)), ": ")
	case e.Type == "call" && e.Node != "":
		r.session = e.Session
		r.shareOf(e).countEvent(e)
	}
	return ""
}

func (r *result) endRun() {
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
}

func (n *share) countEvent(e hub.Event) {
	switch e.State {
	case hub.CallLeased:
		n.running++
	case hub.CallCancelled, hub.CallFailed:
		n.running--
		n.sent += e.Sent
	case hub.CallRequeued:
		n.running--
		n.sent += e.Sent
		n.again++
	case hub.CallDone:
		n.running--
		n.done++
		n.sent += e.Sent + e.Fetched
		n.times = append(n.times, time.Duration(e.ExecNS))
		if !slices.Contains(n.programs, e.Program) {
			n.programs = append(n.programs, e.Program)
		}
		if n.runsBee() && (e.Nonce == 0 || e.Calls == 0) {
			n.unproved++
		}
		n.emulated += e.Calls
	}
}

func (n *share) runsBee() bool { return strings.HasPrefix(n.substrate, "bee") }

// sortedShares sorts the shares by node name.
func (r *result) sortedShares() []*share {
	r.lock.Lock()
	defer r.lock.Unlock()
	var list []*share
	for _, n := range r.shares {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *share) int { return strings.Compare(a.name, b.name) })
	return list
}

func (r *result) shareLines() []string {
	var lines []string
	for _, n := range r.sortedShares() {
		lines = append(lines, fmt.Sprintf("%-8s %-12s %2d running %3d done %8s sent", n.name, n.substrate, max(n.running, 0), n.done, cli.FormatBytes(n.sent)))
	}
	return lines
}

func (n *share) medianTime() time.Duration {
	if len(n.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(n.times))
	return sorted[len(sorted)/2]
}

// tableLines returns the nodes' shares and a comparison of the substrates. A node keeps the
// blobs of an earlier run, so its bytes of that run are added.
func (r *result) tableLines(before *result) []string {
	lines := []string{fmt.Sprintf("%-8s %-12s %5s %14s %11s %9s  %s", "node", "substrate", "calls", "median solve", "bytes sent", "run again", "loaded, SHA-256")}
	median := map[bool]time.Duration{}
	for _, n := range r.sortedShares() {
		digests := make([]string, len(n.programs))
		for i, p := range n.programs {
			digests[i] = fmt.Sprintf("%.16s…", p)
		}
		sent := n.sent + before.sentTo(n.name)
		lines = append(lines, fmt.Sprintf("%-8s %-12s %5d %14v %11s %9d  %s", n.name, n.substrate, n.done, roundTime(n.medianTime()), cli.FormatBytes(sent), n.again, strings.Join(digests, " ")))
		median[n.runsBee()] = n.medianTime()
		if n.runsBee() {
			lines = append(lines, fmt.Sprintf("%8s bee's proof came with %d of %d results; it emulated %d system calls", "", n.done-n.unproved, n.done, n.emulated))
		}
	}
	if median[true] > 0 && median[false] > 0 {
		lines = append(lines, fmt.Sprintf("median solve time, Windows to Linux: %.2f to 1", float64(median[true])/float64(median[false])))
	}
	return lines
}

func (r *result) sentTo(name string) (n uint64) {
	if r == nil {
		return 0
	}
	for _, share := range r.sortedShares() {
		if share.name == name {
			n += share.sent
		}
	}
	return n
}

func (r *result) callsDone() (n int) {
	for _, share := range r.sortedShares() {
		n += share.done
	}
	return n
}

func (r *result) summaryLine() string {
	return fmt.Sprintf("Linux only: %d calls in %.1f s", r.callsDone(), r.wall.Seconds())
}

func (r *result) closingLine() string {
	var parts []string
	for _, n := range r.sortedShares() {
		parts = append(parts, fmt.Sprintf("%d on %s", n.done, n.substrate))
	}
	return fmt.Sprintf("%d calls, the same program file on both substrates: %s. All is well.", r.callsDone(), strings.Join(parts, ", "))
}

// judgeRuns checks the hybrid run, and the one before if there was one, against the demo's
// promises. digest is the digest of the worker's file.
func judgeRuns(digest string, both, alone *result) (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, r := range []*result{alone, both} {
		if r == nil {
			continue
		}
		if r.code != 0 {
			bad("the solver ended with exit code %d: its answer is wrong or missing", r.code)
		}
		if r.callsDone() != callsInAll {
			bad("%d calls gave a result, not %d", r.callsDone(), callsInAll)
		}
		for _, n := range r.sortedShares() {
			if n.unproved > 0 {
				bad("%d results of node %s came without bee's proof: something else ran the program there", n.unproved, n.name)
			}
			for _, p := range n.programs {
				if p != digest {
					bad("the loader of node %s mapped %s, but the worker's file is %s", n.name, p, digest)
				}
			}
		}
	}
	for _, substrate := range []string{"linux", "bee-windows"} {
		if n := both.callsOn(substrate); n < callsAtEach {
			bad("%d calls ran on substrate %s; at least %d must", n, substrate, callsAtEach)
		}
	}
	return problems
}

func (r *result) callsOn(substrate string) (n int) {
	for _, share := range r.sortedShares() {
		if share.substrate == substrate {
			n += share.done
		}
	}
	return n
}
