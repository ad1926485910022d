// SPDX-License-Identifier: MIT

package sched

import (
	"fmt"
	"testing"
	"time"
)

// newUsers is a market with users, of whom user i has the sessions that are listed in
// masters[i] by their priorities. Its name is "u" and i, its sessions are numbered through.
func newUsers(t *testing.T, nodes, slots int, think time.Duration, users []UserSet, masters [][]int) (m *market, of map[SessionID]int) {
	m = newMarket(t, 0, 0, 0, think)
	m.cancels = true // at the end of a queue
	of = map[SessionID]int{}
	for i := range masters {
		if i < len(users) {
			users[i].User = UserID(fmt.Sprint("u", i))
			m.handle(users[i])
		}
		for _, rank := range masters[i] {
			id := SessionID(len(of) + 1)
			of[id] = i
			m.handle(SessionOpen{Session: id, User: UserID(fmt.Sprint("u", i)), Priority: rank})
		}
	}
	if nodes > 0 {
		m.start(nodes, slots, len(of))
	}
	return m, of
}

func (m *market) doneBy(of map[SessionID]int, users int) []int {
	list := make([]int, users)
	for id, n := range m.done {
		list[of[id]] += n
	}
	return list
}

// Users get slots by their weights, however many sessions each has.
func TestUsersShareByWeight(t *testing.T) {
	for _, c := range []struct {
		nodes, slots int
		weights      []int
		masters      [][]int
	}{
		{1, 1, []int{1, 1}, [][]int{{0}, {0}}},
		{1, 1, []int{3, 1}, [][]int{{0}, {0}}},
		{1, 2, []int{3, 1}, [][]int{{0, 0}, {0, 0}}},
		{1, 2, []int{1, 1}, [][]int{{0, 0, 0, 0, 0, 0}, {0, 0}}},
		{2, 2, []int{3, 1}, [][]int{{0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}}},
		{3, 2, []int{2, 3, 1}, [][]int{{0, 0, 0}, {0, 0, 0}, {0, 0, 0, 0, 0}}},
		{4, 1, []int{1, 1, 1}, [][]int{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}},
		{1, 4, []int{1, 1, 1, 1}, [][]int{{0}, {0}, {0}, {0}}},
		{1, 1, []int{10, 1}, [][]int{{0}, {0}}},
	} {
		t.Run(fmt.Sprintf("%d nodes of %d, weights %v, masters %v", c.nodes, c.slots, c.weights, c.masters), func(t *testing.T) {
			users, sum := make([]UserSet, len(c.weights)), 0
			for i, w := range c.weights {
				users[i].Weight = w
				sum += w
			}
			m, of := newUsers(t, 0, 0, -1, users, c.masters)
			used, runs, last := make([]time.Duration, len(users)), make([]int, len(users)), m.now
			m.ran = func(id SessionID, n int) {
				for i := range users {
					used[i] += m.now.Sub(last) * time.Duration(runs[i])
				}
				last = m.now
				runs[of[id]] += n
			}
			m.start(c.nodes, c.slots, len(of))
			// Ten quanta for each unit of weight.
			m.run(time.Duration(10*max(sum/(c.nodes*c.slots), 1)) * quantum)
			var all time.Duration
			for _, d := range used {
				all += d
			}
			for i, d := range used {
				if share := all * time.Duration(c.weights[i]) / time.Duration(sum); d < share*9/10 || d > share*11/10 {
					t.Errorf("user %d: %v of slots, its share are %v", i, d, share)
				}
			}
			if most := (10*sum + 4) * c.nodes * c.slots; m.starts > most {
				t.Errorf("%d workers were started", m.starts)
			}
		})
	}
}

// Sessions of one user share its part evenly, beside another user.
func TestSessionsShareTheirUsersPart(t *testing.T) {
	m, of := newUsers(t, 2, 2, -1, []UserSet{{Weight: 1}, {Weight: 1}}, [][]int{{0, 0, 0, 0}, {0}})
	all := m.run(40 * quantum)
	if n := m.doneBy(of, 2); float64(n[1]) < 0.45*float64(all) {
		t.Errorf("the user with one session got %d of %d calls", n[1], all)
	}
	for id := SessionID(1); id <= 4; id++ {
		if n, share := float64(m.done[id]), float64(all)/8; n < 0.9*share || n > 1.1*share {
			t.Errorf("session %d: %.0f calls, its share are %.0f", id, n, share)
		}
	}
}

// A user never has more slots than its limit, and has all of these while it has calls.
func TestUserSlotsAreLimited(t *testing.T) {
	for _, c := range []struct{ nodes, slots, most, others int }{{2, 2, 1, 1}, {2, 2, 3, 1}, {1, 4, 2, 0}, {4, 1, 2, 2}} {
		for _, think := range []time.Duration{-1, 0} {
			t.Run(fmt.Sprintf("%d nodes of %d, at most %d, think %v", c.nodes, c.slots, c.most, think), func(t *testing.T) {
				masters := [][]int{{0, 0, 0, 0}}
				for range c.others {
					masters = append(masters, []int{0, 0, 0, 0})
				}
				m, of := newUsers(t, 0, 0, think, []UserSet{{Weight: 100, Slots: c.most}}, masters)
				runs, most := 0, 0
				m.ran = func(id SessionID, n int) {
					if of[id] == 0 {
						runs += n
						most = max(most, runs)
					}
				}
				m.start(c.nodes, c.slots, len(of))
				all := m.run(20 * quantum)
				if most != c.most {
					t.Errorf("%d calls of the user ran at a time, want %d", most, c.most)
				}
				part := float64(all) * float64(c.most) / float64(c.nodes*c.slots)
				if n := float64(m.doneBy(of, len(masters))[0]); c.others > 0 && n < 0.85*part {
					t.Errorf("the user did %.0f calls, %d slots of the nodes' do %.0f", n, c.most, part)
				}
			})
		}
	}
}

// Of one user's sessions that with the greatest priority comes first; other users keep their
// part.
func TestPriorities(t *testing.T) {
	for _, think := range []time.Duration{-1, 0} {
		m, of := newUsers(t, 1, 2, think, nil, [][]int{{0, 5, 5, -1}, {9, 9}})
		all := m.run(20 * quantum)
		n := m.doneBy(of, 2)
		if float64(n[0]) < 0.45*float64(all) || float64(n[1]) < 0.45*float64(all) {
			t.Errorf("think %v: the users did %v calls", think, n)
		}
		if low := m.done[1] + m.done[4]; low > n[0]/50 {
			t.Errorf("think %v: sessions of low priority did %d calls of %d", think, low, n[0])
		}
	}
}

// A session of a greater priority does not wait for the end of a quantum, and one that pauses
// leaves its slot to the others.
func TestPriorityIsServedAtOnce(t *testing.T) {
	m, _ := newUsers(t, 1, 1, -1, nil, [][]int{{0}})
	m.run(50 * time.Millisecond)
	m.handle(SessionOpen{Session: 2, User: "u0", Priority: 1})
	before := m.done[1]
	for range 10 {
		m.submit(2)
	}
	m.run(quantum / 2)
	if m.done[1] > before+2 || m.done[2] < 10 { // one ran and one was ahead
		t.Errorf("%d calls of the low priority and %d of the high one", m.done[1]-before, m.done[2])
	}
	m.handle(SessionClose{2})
	m.run(quantum)
	if m.done[1] < before+10 {
		t.Error("the session of low priority got nothing afterwards")
	}
}

// A user that has no calls for a while does not catch up that time, and one whose calls could
// not run catches up a bounded part.
func TestUserCreditIsBounded(t *testing.T) {
	m, of := newUsers(t, 1, 1, 0, nil, [][]int{{0}})
	m.run(200 * quantum)
	of[2] = 1
	m.handle(SessionOpen{Session: 2, User: "u1"})
	m.submit(2)
	before := m.done[1]
	m.run(20 * quantum)
	if a, b := float64(m.done[1]-before), float64(m.done[2]); a < 0.8*b || b < 0.8*a {
		t.Errorf("after a long time alone: %v calls, and the newcomer %v", a, b)
	}

	m, _ = newUsers(t, 1, 1, 0, nil, [][]int{{0}})
	m.handle(SessionOpen{Session: 2, User: "u1", On: parseSelector("gpu=a30")})
	m.submit(2)
	m.run(200 * quantum)
	m.handle(NodeUp{Node: "n0", Slots: 1, Memory: 1 << 40, Apart: true, About: upWith("n0", 1, "gpu=a30").(NodeUp).About})
	clear(m.agents["n0"].running)
	m.events, m.agents["n0"].taken, m.agents["n0"].idle, m.agents["n0"].wait = nil, 0, nil, nil
	m.askLease(m.agents["n0"])
	before = m.done[1]
	m.run(30 * quantum)
	if n := m.done[1] - before; n == 0 {
		t.Error("a user whose calls could not run for long took all slots for ever")
	}
}

var userScripts = []script{
	{"calls of users go only to nodes that keep users apart", Config{}, []step{
		{0, SessionOpen{Session: 1, User: "u"}, nil}, {0, SessionOpen{Session: 2}, nil},
		{0, nodeUp("a", 2), nil}, {0, askSlots("a", 2), nil},
		{0, submitCall(1, 1, modA), nil}, {0, submitCall(2, 2, modA), []string{"grant 2 to a #1"}},
		{59, Beat{Node: "a", Leases: []Fence{1}}, nil}, {59, Tick{}, nil},
		{60, Tick{}, []string{"fail 1: no node that is up keeps users apart: update the agents of the nodes"}},
		{61, submitCall(3, 1, modA), nil},
		{61, NodeUp{Node: "b", Slots: 1, Memory: 100, Apart: true}, nil}, {61, askSlots("b", 1), []string{"grant 3 to b #2"}},
	}},
	{"a limit that is set later holds for calls to come", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 4), nil}, {0, askSlots("a", 4), nil},
		{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}}, {0, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		{1, UserSet{Weight: 1, Slots: 2}, nil}, {1, submitCall(3, 1, modA), nil},
		{2, callDone("a", 1, 1), []string{"commit 1 #1", "grant 3 to a #3"}},
		{3, submitCall(4, 1, modA), nil}, {3, UserSet{Weight: 1}, []string{"grant 4 to a #4"}},
	}},
}
