// SPDX-License-Identifier: MIT

package roll

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// simTimes are short, except those that bound how long calls enter a bad version.
var simTimes = Times{Lease: DefaultTimes.Lease, Fresh: DefaultTimes.Fresh, Dead: 12 * time.Second, Canary: 3 * time.Second, Settle: 5 * time.Second, Slow: 30 * time.Second}

const (
	simStep   = 250 * time.Millisecond
	simFaults = 100 * time.Second // then the network and the nodes heal
	simEnd    = 400 * time.Second
	// deadline is the promise: no new call enters a version later than this after its
	// first bad sign.
	deadline = 5 * time.Second
)

// soakVariable is the number of rolls of a longer run.
const soakVariable = "SKEP_ROLLS"

// A simNode is a machine with a kernel. What it remembers over boots is here.
type simNode struct {
	*Node
	sim           *sim
	up            bool
	bootAt        time.Duration // if it is down
	booted        time.Duration
	boots         int
	kernel        Phase // what the kernel does: Canary, Full, Committed, or less
	kept, marked  bool  // committed for the next boot; ran on trial in this boot
	bad           string
	liar, foreign bool // it says what it likes; it trusts other keys
	slow          time.Duration
	cutUntil      time.Duration
	stoppedUntil  time.Duration // its agent does nothing; the kernel goes on
	until         time.Duration // end of the kernel's policy, on the node's clock
	drainAt, busy time.Duration
	canaryFor     time.Duration // in the first policy, without a break
	fullFor       time.Duration // in the whole policy, without a break
	proved        bool          // it had the first policy for its time
	entered       bool          // it ran the update once
	waited        bool          // it ran it for the time of a wave
	inbox         []simOrder
}

type simOrder struct {
	at time.Duration
	Order
}

type simReport struct {
	at time.Duration
	Report
}

func (n *simNode) Stage() error {
	if n.foreign {
		return errors.New("0 of the 2 signatures that are needed count")
	}
	return nil
}

// Load takes its time, in which the node says nothing, and may lock the machine up.
func (n *simNode) Load() error {
	n.kernel = Loaded
	n.busy = n.sim.now + 680*time.Millisecond + time.Duration(n.sim.rng.IntN(1620))*time.Millisecond
	if n.sim.locks && n.sim.rng.IntN(4) == 0 {
		n.busy = n.sim.now + 30*time.Second
	}
	return nil
}

func (n *simNode) Select(p Phase, until time.Duration) error {
	n.kernel, n.until = p, until
	n.marked = n.marked || p.exposed()
	return nil
}

func (n *simNode) Commit() error { n.kernel, n.kept = Committed, true; return nil }

func (n *simNode) Revert() error {
	n.kernel = Leaving
	n.Inside = []string{fmt.Sprintf("%s: 330 sh sleeps in wait_for_partner", n.Name)}
	n.drainAt = n.sim.now + time.Duration(n.sim.rng.IntN(20))*time.Second
	return nil
}

// boot begins a boot, with what the disk has.
func (n *simNode) boot(now time.Duration) {
	n.boots++
	n.up, n.booted, n.kernel, n.inbox = true, now, None, nil
	if n.marked && !n.kept && n.bad == "" {
		n.bad = "the machine ended while it ran the update on trial"
	}
	n.marked = false
	fits := n.Node == nil || n.Fits
	n.Node = &Node{Name: n.Name0(), Boot: fmt.Sprint(n.boots), Engine: n, Lease: simTimes.Lease, Fits: fits, Bad: n.bad}
	if n.kept {
		n.Node.Phase, n.kernel = Committed, Committed
	}
}

func (n *simNode) Name0() string { return n.sim.names[n] }

// A sim is one roll over nodes that fail in all ways that the seed says.
type sim struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	hub      *Hub
	hubDown  time.Duration // until then
	now      time.Duration
	nodes    []*simNode
	names    map[*simNode]string
	reports  []simReport
	loss     float64
	delay    time.Duration
	defect   float64 // probability of a bad sign per step of a node that runs the update
	panics   bool
	locks    bool // loading it locks some machines up
	reboots  float64
	firstBad time.Duration
	decided  bool // before the first bad sign
	late     int  // nodes that join later
	ended    time.Duration
	entered  int
}

func newSim(t *testing.T, seed uint64, count int) *sim {
	rng := rand.New(rand.NewPCG(seed, 23))
	s := &sim{t: t, seed: seed, rng: rng, names: map[*simNode]string{}, firstBad: -1}
	s.loss, s.delay = rng.Float64()*0.03*float64(rng.IntN(2)), time.Duration(rng.IntN(3))*200*time.Millisecond
	if rng.IntN(8) == 0 {
		s.delay = 3 * time.Second
	}
	if rng.IntN(2) == 0 {
		s.defect, s.panics = []float64{0.2, 0.01, 0.0005}[rng.IntN(3)], rng.IntN(3) == 0
	}
	s.locks = rng.IntN(10) == 0
	if rng.IntN(3) == 0 {
		s.reboots = 0.00002
	}
	waves, err := ParseWaves([]string{"1,5%,25%,all", "1,10,all", "10%,all", "all"}[rng.IntN(4)])
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	s.late = rng.IntN(4)
	for i := range count {
		n := &simNode{sim: s}
		s.names[n] = fmt.Sprintf("n%03d", i)
		n.liar, n.foreign = rng.IntN(50) == 0 && rng.IntN(2) == 0, rng.IntN(40) == 0
		if rng.IntN(20) == 0 {
			n.slow = time.Duration(rng.IntN(16)) * simStep
		}
		n.boot(0)
		n.Fits = rng.IntN(30) != 0
		s.nodes = append(s.nodes, n)
		if i < count-s.late {
			known = append(known, n.Name)
		}
	}
	s.hub = NewHub(Plan{Waves: waves, Times: simTimes, MaxUnavailable: count / 10}, known)
	return s
}

func (s *sim) failf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d at %v: %s", s.seed, s.now, fmt.Sprintf(format, args...))
}

func (s *sim) healed() bool { return s.now > simFaults }

// lost decides whether a message is lost, and else when it arrives.
func (s *sim) lost(n *simNode) (at time.Duration, lost bool) {
	if s.healed() {
		return s.now, false
	}
	at = s.now
	if s.delay > 0 {
		at += time.Duration(s.rng.Int64N(int64(s.delay)))
	}
	return at, s.rng.Float64() < s.loss || s.now < n.cutUntil
}

func (s *sim) stepNode(n *simNode) {
	if !n.up {
		if s.now >= n.bootAt {
			n.boot(s.now)
		}
		return
	}
	if !s.healed() {
		if s.rng.Float64() < s.reboots {
			n.up, n.kernel, n.bootAt = false, None, s.now+time.Duration(5+s.rng.IntN(30))*time.Second
			s.noteTrialEnd(n)
			return
		}
		if s.loss > 0 && s.rng.Float64() < 0.0002 {
			n.cutUntil = s.now + time.Duration(s.rng.IntN(20))*time.Second
		}
	}
	clock := s.now - n.booted
	if s.now < n.busy {
		return
	}
	if !s.healed() && s.loss > 0 && s.rng.Float64() < 0.0002 {
		n.stoppedUntil = s.now + time.Duration(s.rng.IntN(40))*time.Second
	}
	if n.kernel.exposed() && clock >= n.until {
		n.kernel = Loaded
	}
	if n.kernel.exposed() && s.rng.Float64() < s.defect {
		s.harm(n)
		if !n.up {
			return
		}
	}
	if s.now < n.stoppedUntil {
		return
	}
	if n.bad != "" {
		n.Harm(n.bad)
	}
	n.Tick(clock)
	if n.Phase == Leaving && s.now >= n.drainAt {
		n.kernel, n.marked = Reverted, false
		n.Drained()
	}
	for len(n.inbox) > 0 && n.inbox[0].at <= s.now {
		o := n.inbox[0]
		n.inbox = n.inbox[1:]
		n.Obey(clock, o.Order)
	}
	r := n.Report(clock)
	if n.liar {
		r.Phase, r.Bad, r.Refused = []Phase{Staged, Canary, Full, Committed, Full}[s.rng.IntN(5)], "", ""
	}
	if at, lost := s.lost(n); !lost {
		s.reports = append(s.reports, simReport{at, r})
	}
}

// noteTrialEnd records a bad sign that only the boot marker will tell.
func (s *sim) noteTrialEnd(n *simNode) {
	if n.marked && !n.kept && !n.liar {
		s.sign()
	}
}

func (s *sim) sign() {
	if s.firstBad < 0 {
		s.firstBad = s.now
		s.decided = s.hub.State == Confirming || s.hub.State == Committing || s.hub.State == Done
	}
}

// harm shows a bad sign: the kernel reverts the update, or panics.
func (s *sim) harm(n *simNode) {
	if !n.liar {
		s.sign()
	}
	n.bad = "WARN at net/ipv4/arp.c:1"
	if s.panics {
		n.up, n.kernel, n.bootAt = false, None, s.now+20*time.Second
		return
	}
	n.kernel = Leaving
	n.Inside = []string{n.Name + ": 331 cat sleeps in pipe_read"}
	n.drainAt = s.now + time.Duration(s.rng.IntN(20))*time.Second
}

func (s *sim) stepHub() {
	if s.now < s.hubDown {
		s.reports = nil
		return
	}
	if !s.healed() && s.rng.IntN(2000) == 0 { // it restarts with what it stored
		text, err := json.Marshal(s.hub)
		next := &Hub{}
		if err == nil {
			err = json.Unmarshal(text, next)
		}
		if err != nil {
			s.failf("the hub cannot be stored: %v", err)
		}
		s.hub, s.hubDown = next, s.now+time.Duration(s.rng.IntN(8))*time.Second
		return
	}
	var later []simReport
	for _, r := range s.reports {
		if r.at > s.now {
			later = append(later, r)
			continue
		}
		o := s.hub.Report(s.now, r.Report)
		n := s.find(r.Node)
		if at, lost := s.lost(n); !lost {
			n.inbox = append(n.inbox, simOrder{at + n.slow, o})
		}
	}
	s.reports = later
	s.hub.Tick(s.now)
}

func (s *sim) find(name string) *simNode {
	var i int
	if _, err := fmt.Sscanf(name, "n%d", &i); err != nil {
		s.failf("%v", err)
	}
	return s.nodes[i]
}

// check tests the invariants that hold at every time.
func (s *sim) check() {
	exposed, loaded := 0, 0
	size := s.hub.Plan.Waves[min(s.hub.Begun, len(s.hub.Plan.Waves)-1)].Size(max(s.hub.Total, 1))
	for _, n := range s.nodes {
		if n.liar || !n.up {
			continue
		}
		if n.kernel != Full {
			n.fullFor = 0
		}
		if n.kernel != Canary {
			n.canaryFor = 0
		}
		if n.kernel >= Loaded && n.kernel <= Full {
			loaded++
		}
		if n.kernel.exposed() {
			exposed++
			s.enter(n)
			if n.foreign || !n.Fits || n.bad != "" {
				s.failf("%s runs an update that it must not: %+v", n.Name, n.Node)
			}
		}
		if s.firstBad >= 0 && s.now > s.firstBad+deadline && n.kernel.exposed() {
			s.failf("calls enter the update on %s, and its first bad sign was at %v", n.Name, s.firstBad)
		}
		if n.kernel == Committed && s.firstBad >= 0 && !s.decided && !n.liar {
			s.failf("%s committed an update whose first bad sign at %v was before the decision", n.Name, s.firstBad)
		}
		if n.Phase == Leaving && len(n.Inside) == 0 {
			s.failf("%s leaves, and names nobody who is inside", n.Name)
		}
		if n.Phase.exposed() != n.kernel.exposed() && s.now >= n.stoppedUntil {
			s.failf("%s says %v, and the kernel does %v", n.Name, n.Phase, n.kernel)
		}
	}
	if s.hub.State != Done && max(exposed, loaded) > size {
		s.failf("%d nodes have loaded the update and %d run it, and the wave has %d", loaded, exposed, size)
	}
	if s.hub.State == Done && exposed > s.hub.Plan.MaxUnavailable {
		s.failf("%d nodes catch up at the same time", exposed)
	}
}

// catchingUp reports whether a node still moves.
func (s *sim) catchingUp() bool {
	for _, n := range s.nodes {
		if n.kernel.exposed() || n.kernel == Leaving {
			return true
		}
	}
	return false
}

// enter counts a node that runs the update for the first time. The first node beyond a wave
// may do so only when the nodes of that wave had their time.
func (s *sim) enter(n *simNode) {
	switch n.kernel {
	case Canary:
		n.canaryFor += simStep
		n.proved = n.proved || n.canaryFor >= simTimes.Canary
	case Full:
		n.fullFor += simStep
		if !n.proved {
			s.failf("%s runs the whole policy, and had the first one for no %v", n.Name, simTimes.Canary)
		}
	}
	n.waited = n.waited || n.fullFor >= simTimes.Settle
	if n.entered {
		return
	}
	n.entered = true
	s.entered++
	for _, w := range s.hub.Plan.Waves {
		size := w.Size(s.hub.Total)
		if s.entered != size+1 || s.hub.State == Done { // who catches up needs no wave
			continue
		}
		done := 0
		for _, o := range s.nodes {
			if o.waited || o.liar || s.failed(o.Name) {
				done++
			}
		}
		if done < size {
			s.failf("node %d runs the update, and only %d of a wave of %d had their time", s.entered, done, size)
		}
	}
}

func (s *sim) failed(name string) bool {
	m := s.hub.Nodes[name]
	return m != nil && m.Chosen && m.Failed != ""
}

// checkEnd tests that no node is left half-way.
func (s *sim) checkEnd() {
	if s.hub.State != Done && s.hub.State != Stopped {
		s.failf("the roll is %v: %s", s.hub.State, s.hub.Why)
	}
	for _, n := range s.nodes {
		m := s.hub.Nodes[n.Name]
		if n.liar {
			continue
		}
		switch {
		case m == nil:
			s.failf("%s never joined", n.Name)
		case n.kernel.exposed() || n.kernel == Leaving || n.Phase == Leaving || n.Phase == Loaded:
			s.failf("%s is left half-way: %v, %+v, the hub is %v", n.Name, n.Phase, m, s.hub.State)
		case s.hub.State == Done && !s.hub.Blocked && n.Fits && m.Failed == "" && n.Phase != Committed && n.slow < simTimes.Fresh/2-2*simStep:
			s.failf("%s did not get what is committed: %v, %+v", n.Name, n.Phase, m)
		case s.hub.State == Stopped && n.Phase != Reverted && n.Phase != Committed:
			s.failf("the roll was stopped, and %s is %v", n.Name, n.Phase)
		case n.Phase == Committed && (n.foreign || !n.Fits):
			s.failf("%s committed what it must not", n.Name)
		}
	}
}

func (s *sim) run() {
	for ; s.now < simEnd; s.now += simStep {
		for i, n := range s.nodes {
			if i >= len(s.nodes)-s.late && s.now < 60*time.Second {
				continue
			}
			s.stepNode(n)
		}
		s.stepHub()
		s.check()
		if !s.healed() || s.hub.State != Stopped && s.hub.State != Done || s.catchingUp() {
			s.ended = s.now
		} else if s.now > s.ended+40*time.Second {
			break
		}
	}
	s.checkEnd()
}

// Rolls over 100 nodes with losses, delays, partitions, reboots, panics, slow nodes and
// liars keep the invariants.
func TestRollsKeepTheInvariants(t *testing.T) {
	rolls := 60
	if n, err := strconv.Atoi(os.Getenv(soakVariable)); err == nil {
		rolls = n
	}
	ends := map[string]int{}
	for seed := range uint64(rolls) {
		s := newSim(t, seed, 100)
		s.run()
		end := s.hub.State.String()
		if s.firstBad >= 0 {
			end += ", harmed"
		}
		ends[end]++
		if testing.Verbose() && end == "stopped" {
			t.Log(seed, s.hub.Why, s.loss, s.delay, s.ended)
		}
	}
	t.Log(ends)
	for _, want := range []string{"done", "stopped, harmed"} {
		if ends[want] < rolls/6 {
			t.Errorf("only %d of %d rolls are %s: the test shows too little", ends[want], rolls, want)
		}
	}
}
