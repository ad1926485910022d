// SPDX-License-Identifier: MIT

package sched

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// Where nodes keep the workers of masters that wait, the shares differ by at most a tenth in
// each ten quanta, though 16 masters on two slots would get only one or two whole quanta then.
// They start a worker each on a node, and get as much done as one master.
func TestSharesAreFairInTenQuanta(t *testing.T) {
	for _, c := range []struct{ nodes, slots, masters int }{{1, 2, 16}, {1, 1, 8}, {4, 1, 7}, {1, 2, 3}} {
		for _, think := range []time.Duration{-1, 0, 3 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d nodes of %d, %d masters, think %v", c.nodes, c.slots, c.masters, think), func(t *testing.T) {
				m := newMarket(t, c.nodes, c.slots, c.masters, think)
				m.spare = 32
				m.cancels = true // of leases that wait, when another node has a seat
				m.checkWindows()
				all, one := m.run(0), newMarket(t, c.nodes, c.slots, 1, think).run(30*quantum)
				if think >= 0 {
					one *= min(c.nodes*c.slots, c.masters)
				}
				if float64(all) < 0.95*float64(one) {
					t.Errorf("%d masters did %d calls, one alone %d", c.masters, all, one)
				}
				if most := c.nodes * (c.masters + c.slots); m.starts > most {
					t.Errorf("%d workers were started for %d masters", m.starts, c.masters)
				}
			})
		}
	}
}

// checkWindows checks the shares of three times ten quanta.
func (m *market) checkWindows() {
	m.t.Helper()
	for range 3 {
		before := maps.Clone(m.done)
		all := m.run(10 * quantum)
		for id, n := range before {
			all -= n
			m.done[id] -= n
		}
		m.checkEvenShares(all)
		for id, n := range before {
			m.done[id] += n
		}
	}
}

// The same holds between users, however many masters each has.
func TestUsersGetTheirPartInTenQuanta(t *testing.T) {
	for _, think := range []time.Duration{-1, 0} {
		for _, list := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1}, {6, 1, 1, 1}} {
			m, of := newUsers(t, 0, 0, think, nil, make([][]int, 0))
			m.spare = 32
			for i, n := range list {
				for range n {
					of[SessionID(len(of)+1)] = i
					m.handle(SessionOpen{Session: SessionID(len(of)), User: UserID(fmt.Sprint("u", i))})
				}
			}
			m.start(1, 1, len(of))
			m.run(40 * quantum) // starts
			for range 3 {
				before, sum := m.doneBy(of, len(list)), m.run(0)
				after := m.run(10 * quantum)
				for i, n := range m.doneBy(of, len(list)) {
					if n, part := n-before[i], (after-sum)/len(list); 10*n < 9*part || 10*n > 11*part {
						t.Errorf("think %v, sessions %v: user %d did %d calls, its part are %d", think, list, i, n, part)
					}
				}
			}
		}
	}
}

// A seat that waits for the next call of a master counts as used, so that masters which think
// between short calls do not get it for longer than others.
func TestReservedSeatsCount(t *testing.T) {
	m := newMarket(t, 1, 1, 3, -1)
	m.spare = 32
	m.slow = map[SessionID]time.Duration{1: 4 * time.Millisecond}
	m.run(10 * quantum)
	m.length = func(id SessionID) time.Duration {
		if id == 1 {
			return callTime / 4
		}
		return callTime
	}
	before := m.done[2] + m.done[3]
	m.run(20 * quantum)
	if used := time.Duration(m.done[2]+m.done[3]-before) * callTime; used < 20*quantum*6/10 {
		t.Errorf("two of three masters used %v of %v, the third thinks", used, 20*quantum)
	}
}

// A master that found its worker is not kept from a slot for a quantum by another that goes on
// because the one that was due cannot run here.
func TestTurnsThatGoOnAreShort(t *testing.T) {
	m := newMarket(t, 1, 1, 2, -1)
	m.spare = 32
	m.run(4 * quantum)
	m.handle(SessionOpen{Session: 3, On: parseSelector("gpu=a30")})
	m.submit(3)
	for range 5 {
		m.quiet = map[SessionID]bool{2: true} // it submits no more
		m.run(3 * quantum)
		m.quiet = nil
		before := m.done[2]
		m.submit(2)
		m.run(quantum / 2)
		if m.done[2] == before {
			t.Errorf("a call that took turns waited for half a quantum")
		}
	}
}

// A start is paid for by a quantum, also where a node has room for the workers of some of the
// masters only.
func TestFewSpareWorkersCostNoStarts(t *testing.T) {
	for _, spare := range []int{0, 1, 4, 12} {
		for _, think := range []time.Duration{-1, 0} {
			m := newMarket(t, 1, 2, 16, think)
			m.spare = spare
			m.run(40 * quantum)
			if most := 2 * (40 + 2); m.starts > most {
				t.Errorf("room for %d more, think %v: %d workers were started, want at most %d", spare, think, m.starts, most)
			}
		}
	}
}

// A master whose calls could not run for long catches up a bounded part of that time.
func TestSessionCreditIsBounded(t *testing.T) {
	m := newMarket(t, 1, 1, 2, -1)
	m.spare = 32
	m.run(4 * quantum)
	m.s.bySess[1].served += 100 * quantum // as if only session 1 had run for long
	first, all := m.done[1], m.run(0)
	all = m.run(20*quantum) - all
	if n := m.done[1] - first; 5*n < all || 5*n > 2*all {
		t.Errorf("after a long time alone a master did %d of %d calls in twenty quanta", n, all)
	}
}

// A turn that cost no start is short for a session of another user, whatever that was served: only
// sessions of one user are compared by that. A turn that paid for a start lasts the quantum.
func TestShortTurnsBetweenUsers(t *testing.T) {
	s := New(Config{Quantum: quantum, Turn: quantum / 10})
	s.now = epoch
	own, other := s.userOf("own"), s.userOf("other")
	little, much := &session{user: own, served: quantum}, 2*quantum
	for _, c := range []struct {
		had     time.Duration
		started bool
		next    *user
		served  time.Duration
		over    bool
	}{
		{quantum / 10, false, other, much, true}, {quantum / 10, false, own, much, false},
		{quantum / 10, false, own, quantum, true}, {quantum/10 - 1, false, other, 0, false},
		{quantum - 1, true, other, 0, false}, {quantum - 1, true, own, 0, false},
		{quantum, true, other, much, true}, {quantum, false, own, much, true},
	} {
		c.next.next = &session{user: c.next, served: c.served}
		if over := s.turnOver(&seat{session: little, started: c.started, since: epoch.Add(-c.had)}, c.next); over != c.over {
			t.Errorf("after %v, with a start %v, a session of %s that was served %v: the turn is over: %v", c.had, c.started, c.next.id, c.served, over)
		}
	}
}
