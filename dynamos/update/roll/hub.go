// SPDX-License-Identifier: MIT

package roll

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Plan is what an operator asks for.
type Plan struct {
	Waves          []Wave
	Times          Times
	Rules          Rules
	MaxUnavailable int // more silent nodes than these hold a roll
}

// A Member is a node as the hub knows it. Its fields are exported because the hub stores
// them.
type Member struct {
	Goal   Phase
	Last   Report
	Chosen bool   // it belongs to a wave that has begun, and may run the update
	Failed string // why it gets the update no more
	// At is when the last report came; Heard a time at which the node was well; Set when it
	// got its goal, or last kept to it for long enough.
	At, Heard, Set time.Duration
	Silent         time.Duration // how long it was not fresh since Set
	Able           time.Duration // when it was last ready to be chosen, or was first heard
}

// aim gives a node a goal.
func (m *Member) aim(now time.Duration, goal Phase) {
	m.Goal, m.Set, m.Silent = goal, now, 0
}

// A Hub is the half of a roll on the hub. Times are of the hub's clock.
type Hub struct {
	Plan    Plan
	State   State
	Why     string // why it was stopped or is held
	Begun   int    // waves that have begun
	Nodes   map[string]*Member
	Total   int           // nodes that could take the update when the first wave began
	Blocked bool          // a sign of harm was seen: no other node gets the update
	Harmed  string        // the first node that the update harmed, and how; empty: none
	Decided time.Duration // when all had their time
	Held    bool          `json:"-"` // a newer roll supersedes this one: nobody catches up
	Ticked  time.Duration // when Tick was called last
	Up      time.Duration // when the hub came back after a gap
	First   time.Duration // when Tick was called first, or 1

	order   []string // the names of Nodes, sorted
	members []*Member
}

// NewHub begins a roll over these nodes.
func NewHub(p Plan, nodes []string) *Hub {
	h := &Hub{Plan: p, Nodes: map[string]*Member{}}
	for _, name := range nodes {
		h.Nodes[name] = &Member{Goal: Staged}
	}
	return h
}

// sorted calls do for each node, in the order of names: a roll repeats itself.
func (h *Hub) sorted(do func(name string, m *Member)) {
	h.fill()
	for i, m := range h.members {
		do(h.order[i], m)
	}
}

func (h *Hub) fill() {
	if len(h.order) == len(h.Nodes) {
		return
	}
	h.order, h.members = slices.Sorted(maps.Keys(h.Nodes)), nil
	for _, name := range h.order {
		h.members = append(h.members, h.Nodes[name])
	}
}

// Pause keeps the roll from adding nodes or committing.
func (h *Hub) Pause(why string) {
	if h.State == Running || h.State == Confirming {
		h.State, h.Why = Paused, why
	}
}

// Resume continues a paused roll.
func (h *Hub) Resume() {
	if h.State == Paused {
		h.State, h.Why = Running, ""
	}
}

// Stop takes the update back from every node that did not commit it. A roll that is done
// cannot be stopped: that needs a signed order to revert.
func (h *Hub) Stop(why string) {
	if h.State != Done && h.State != Stopped {
		h.State, h.Why = Stopped, why
	}
	if h.State == Stopped {
		for _, m := range h.Nodes {
			m.Goal = Reverted
		}
	}
}

// stays reports whether a node has been in the phase of its goal for a time.
func (m *Member) stays(long time.Duration) bool { return m.Last.Phase == m.Goal && m.Last.For >= long }

// Report takes a node's report and returns the answer.
func (h *Hub) Report(now time.Duration, r Report) Order {
	m := h.Nodes[r.Node]
	if m == nil { // it joined later
		m = &Member{Goal: Staged}
		h.Nodes[r.Node] = m
		if h.State == Stopped {
			m.Goal = Reverted
		}
	}
	if m.Last.Boot == r.Boot && r.Stamp <= m.Last.Stamp {
		return Order{} // overtaken; its answer would be too
	}
	was := m.Last
	m.Last, m.At = r, now
	m.Heard = max(m.Heard, min(r.Heard, now))
	if was.Boot == "" || h.ready(now, m) {
		m.Able = now
	}
	h.examine(now, m, was)
	return Order{Boot: r.Boot, Stamp: r.Stamp, Now: now, Goal: m.Goal, Grant: h.grants(now, m)}
}

// examine looks for signs of harm in a report.
func (h *Hub) examine(now time.Duration, m *Member, was Report) {
	name, booted := m.Last.Node, was.Boot != "" && was.Boot != m.Last.Boot
	if booted && m.Chosen && m.Failed == "" && was.Phase == Committed && m.Last.Phase < Loaded && h.State != Stopped {
		m.Chosen = false // another kernel runs, in which the update was never on trial
		m.aim(now, Staged)
	}
	if !m.Chosen && m.Failed != "" && was.Boot != m.Last.Boot && m.Last.Refused == "" && m.Last.Bad == "" && h.State != Stopped {
		m.Failed, m.Goal = "", Staged // another kernel may run now
	}
	may := m.Chosen && m.Last.Superseded == "" && (m.Failed == "" || was.Phase != Reverted)
	switch {
	case (m.Chosen || was.Phase == Committed) && m.Last.Bad != "" && m.Failed != m.Last.Bad: // also if a roll before committed it
		h.harm(name, m, m.Last.Bad)
	case m.Failed == "" && m.Last.Superseded != "":
		h.fail(m, m.Last.Superseded)
	case may && booted && m.Last.Phase != Committed:
		h.harm(name, m, "it booted while it loaded or ran the update on trial")
	case m.Chosen && m.Failed == "" && m.Last.Phase == Committed && m.Goal != Committed:
		h.fail(m, "it says that it committed the update, and nobody ordered that")
	case m.Failed == "" && m.Last.Refused != "":
		h.fail(m, "it refused: "+m.Last.Refused)
	}
}

// harm records a sign of harm on a node, which stops the roll. Nodes that have committed
// the update keep it until operators sign an order to revert.
func (h *Hub) harm(name string, m *Member, why string) {
	h.fail(m, why)
	h.Blocked = true
	if h.Harmed == "" {
		h.Harmed = name + ": " + why
	}
	h.Stop(name + ": " + why)
	h.exposed(func(_ string, m *Member) { h.fail(m, name+" was harmed: "+why) }) // those that catch up
}

// fail excludes a node. It reverts what it has, so a failure never loops.
func (h *Hub) fail(m *Member, why string) {
	m.Failed, m.Goal = why, Reverted
}

// runs reports whether a node may run the update on trial.
func (m *Member) runs() bool {
	return m.Chosen && m.Failed == "" && m.Goal >= Canary && m.Goal <= Committed && m.Last.Phase != Committed
}

// mayRun also counts a node that was left out and did not yet report that it reverted the
// update: until then it may be harmed without the hub's knowledge.
func (m *Member) mayRun() bool {
	return m.runs() || m.Chosen && m.Failed != "" && m.Last.Phase != Reverted && m.Last.Phase != Committed
}

// exposed calls do for each node that may run the update on trial.
func (h *Hub) exposed(do func(name string, m *Member)) {
	h.sorted(func(name string, m *Member) {
		if m.runs() {
			do(name, m)
		}
	})
}

// grants reports whether a node may run the update: only while all that run it were well
// a moment ago, because a silent node may be harmed.
func (h *Hub) grants(now time.Duration, of *Member) bool {
	if of.Failed != "" || of.Goal < Canary || of.Goal > Committed || h.State == Stopped {
		return false
	}
	return h.fresh(now)
}

// fresh reports whether all nodes that run the update were well a moment ago.
func (h *Hub) fresh(now time.Duration) bool {
	h.fill()
	for _, m := range h.members {
		if m.mayRun() && m.Heard+h.Plan.Times.Fresh <= now {
			return false
		}
	}
	return true
}

// Tick advances the roll. It is called often.
func (h *Hub) Tick(now time.Duration) {
	if h.First == 0 {
		h.First = max(now, 1)
	}
	if gap := now - h.Ticked; gap > h.Plan.Times.Fresh { // the hub was away: no node is to blame
		h.Up, h.Ticked = now, now
		h.exposed(func(_ string, m *Member) { m.Set, m.Silent = now, 0 })
	}
	if h.State == Stopped {
		return
	}
	h.sorted(func(name string, m *Member) {
		if (m.mayRun() || m.loads()) && max(m.Heard, h.Up)+h.Plan.Times.Dead <= now {
			h.harm(name, m, "it was silent while it loaded or ran the update on trial")
		}
	})
	h.leaveOut(now)
	if why := h.Plan.Rules.Judge(h.sum()); why != "" && h.State < Committing {
		h.Stop(why)
	}
	switch h.State {
	case Running:
		h.advance(now)
	case Confirming:
		h.confirm(now)
	case Committing:
		h.finish()
	case Done:
		h.catchUp(now)
	}
}

// isSilent reports whether a node was silent for a part of the time since it got its goal.
func (m *Member) isSilent(now time.Duration) bool { return m.Silent*20 > now-m.Set }

// timeOf returns how long a node must stay in a phase.
func (h *Hub) timeOf(p Phase) time.Duration {
	switch p {
	case Canary:
		return h.Plan.Times.Canary
	case Full:
		return h.Plan.Times.Settle
	}
	return 0
}

// leaveOut gives up on nodes that are heard and do not follow. Too many of them stop a roll.
func (h *Hub) leaveOut(now time.Duration) {
	silent, left := false, false
	h.exposed(func(_ string, m *Member) {
		switch {
		case m.stays(h.timeOf(m.Goal)):
			m.Set, m.Silent = now, 0
		case m.Heard+h.Plan.Times.Fresh*3/4 <= now: // before grants notices
			m.Silent += now - h.Ticked
		}
		silent = silent || m.isSilent(now)
	})
	h.Ticked = now
	h.exposed(func(_ string, m *Member) {
		need := h.timeOf(m.Goal)
		// While one is silent, none of the others can keep its phase: that is not their fault.
		if m.Set+need+h.Plan.Times.Slow <= now && !m.stays(need) && (!silent || m.isSilent(now)) {
			h.fail(m, fmt.Sprintf("it was not %v for %v in a row within %v", m.Goal, need, need+h.Plan.Times.Slow))
			left = true
		}
	})
	if left {
		h.exposed(func(_ string, m *Member) { m.Set, m.Silent = now, 0 })
	}
	chosen, failed := 0, 0
	for _, m := range h.Nodes {
		if m.Chosen {
			chosen++
		}
		if m.Chosen && m.Failed != "" {
			failed++
		}
	}
	switch {
	case h.State == Done:
	case failed > h.Plan.MaxUnavailable:
		h.Stop(fmt.Sprintf("%d nodes failed, more than %d", failed, h.Plan.MaxUnavailable))
	case failed > 0 && failed == chosen: // nothing was shown
		h.Stop(fmt.Sprintf("all %d chosen nodes failed", failed))
	}
}

// sum adds up what the chosen nodes reported.
func (h *Hub) sum() (s Health) {
	for _, m := range h.Nodes {
		if m.Chosen && m.Failed == "" {
			s.OldCalls += m.Last.Health.OldCalls
			s.OldErrors += m.Last.Health.OldErrors
			s.NewCalls += m.Last.Health.NewCalls
			s.NewErrors += m.Last.Health.NewErrors
		}
	}
	return s
}

// unavailable counts nodes that are silent and do not run the update.
func (h *Hub) unavailable(now time.Duration) (n int) {
	for _, m := range h.Nodes {
		if !m.Chosen && m.Failed == "" && (m.Last.Boot == "" || m.At+h.Plan.Times.Dead <= now) {
			n++
		}
	}
	return n
}

// loads reports whether a node loads the update. That may take long, and may lock it up;
// it holds up nobody else.
func (m *Member) loads() bool { return m.Chosen && m.Failed == "" && m.Goal == Loaded }

// loaded gives nodes that have loaded the update the first policy. left counts the others.
func (h *Hub) loaded(now time.Duration) (left int) {
	h.sorted(func(_ string, m *Member) {
		switch {
		case !m.loads():
		case m.Last.Phase == Loaded && m.Heard+h.Plan.Times.Fresh/2 > now:
			m.aim(now, Canary)
		case m.Set+h.Plan.Times.Slow <= now:
			h.fail(m, fmt.Sprintf("it did not load the update within %v", h.Plan.Times.Slow))
		default:
			left++
		}
	})
	return left
}

// advance moves a wave from the first policy to the whole one, and then begins the next.
func (h *Hub) advance(now time.Duration) {
	if h.loaded(now) > 0 {
		return
	}
	canary, full := true, true
	h.exposed(func(_ string, m *Member) {
		done := m.stays(h.timeOf(m.Goal))
		full = full && m.Goal == Full && done
		canary = canary && (m.Goal != Canary || done)
	})
	switch {
	case !full && canary:
		h.exposed(func(_ string, m *Member) {
			if m.Goal == Canary {
				m.aim(now, Full)
			}
		})
	case full:
		h.nextWave(now)
	}
}

// gathers reports whether nodes may still verify the package before the first wave, whose
// size depends on them.
func (h *Hub) gathers(now time.Duration) bool {
	if h.Begun > 0 || h.Total > 0 {
		return false
	}
	for _, m := range h.Nodes {
		waits := h.First + h.Plan.Times.Slow
		if m.Last.Boot == "" {
			waits = h.First + h.Plan.Times.Dead
		}
		if m.Failed == "" && m.Last.Phase != Staged && m.Last.Phase != Committed && m.Last.Fits == (m.Last.Boot != "") && now < waits {
			return true
		}
	}
	return false
}

// nextWave chooses nodes until the next wave has its size. After the last wave the roll
// asks each node once more.
func (h *Hub) nextWave(now time.Duration) {
	if h.gathers(now) {
		h.Why = "waits for nodes to verify the package"
		return
	}
	if n := h.unavailable(now); n > h.Plan.MaxUnavailable {
		h.Why = fmt.Sprintf("held: %d nodes are silent, more than %d", n, h.Plan.MaxUnavailable)
		return
	}
	h.Why = ""
	if h.Begun == len(h.Plan.Waves) {
		h.State, h.Decided = Confirming, now
		return
	}
	chosen, able := h.count(now)
	if h.Total == 0 {
		h.Total = able
	}
	size := h.Plan.Waves[h.Begun].Size(max(h.Total, 1))
	h.sorted(func(_ string, m *Member) {
		if chosen < size && h.ready(now, m) {
			m.Chosen = true
			m.aim(now, Loaded)
			chosen++
			able--
		}
	})
	switch {
	case chosen == 0 && able == 0:
		h.Stop("no node can take the update")
	case chosen >= size || able == 0:
		h.Begun++
	}
}

// count returns the nodes that were chosen, and those that may still be.
func (h *Hub) count(now time.Duration) (chosen, able int) {
	for _, m := range h.Nodes {
		switch {
		case m.Chosen:
			chosen++
		case m.Failed == "" && m.Last.Fits && m.At+h.Plan.Times.Dead > now && m.Able+h.Plan.Times.Slow > now:
			able++
		}
	}
	return chosen, able
}

// ready reports whether a node may be chosen: it verified the package, and answers so fast
// that it will not hold up the others.
func (h *Hub) ready(now time.Duration, m *Member) bool {
	return !m.Chosen && m.Failed == "" && m.Last.Fits && (m.Last.Phase == Staged || m.Last.Phase == Loaded) &&
		m.Last.Bad == "" && m.Heard+h.Plan.Times.Fresh/2 > now
}

// confirm waits until each node was well after all had their time.
func (h *Hub) confirm(now time.Duration) {
	all := true
	h.exposed(func(_ string, m *Member) { all = all && m.Heard >= h.Decided && m.Last.Phase == Full })
	if !all {
		return
	}
	h.State = Committing
	h.exposed(func(_ string, m *Member) { m.aim(now, Committed) })
}

// finish ends the roll when each chosen node has committed or failed.
func (h *Hub) finish() {
	left := 0
	h.exposed(func(string, *Member) { left++ })
	if left == 0 {
		h.State = Done
	}
}

// catchUp brings what is committed to nodes that were away or joined later, a few at a
// time, each with the time of a wave.
func (h *Hub) catchUp(now time.Duration) {
	if h.Blocked || h.Held {
		return
	}
	n := h.loaded(now)
	h.exposed(func(_ string, m *Member) {
		n++
		switch {
		case !m.stays(h.timeOf(m.Goal)):
		case m.Goal == Canary:
			m.aim(now, Full)
		case m.Goal == Full:
			m.aim(now, Committed)
		}
	})
	h.sorted(func(_ string, m *Member) {
		if n < max(1, h.Plan.MaxUnavailable) && h.ready(now, m) {
			m.Chosen = true
			m.aim(now, Loaded)
			n++
		}
	})
}
