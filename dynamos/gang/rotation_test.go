// SPDX-License-Identifier: MIT

package gang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	testPeriod   = 10 * time.Second
	testPatience = time.Second
)

// A stage is a rotation with a clock and gangs that the test moves.
type stage struct {
	*Rotation
	now    time.Time
	frozen []bool
	ended  []bool
}

func newStage(n int) *stage {
	return &stage{NewRotation(n, testPeriod, testPatience), time.Unix(1000, 0), make([]bool, n), make([]bool, n)}
}

// step lets the time pass, and returns what the rotation wants, as text.
func (s *stage) step(d time.Duration) (text string) {
	s.now = s.now.Add(d)
	for i := range s.frozen {
		s.Observe(i, s.frozen[i], s.ended[i])
	}
	return actsText(s.Step(s.now))
}

func actsText(acts []Act) (text string) {
	for _, a := range acts {
		switch {
		case a.Kind == Stop:
			text += fmt.Sprint(" stop ", a.Gang)
		case a.Kind == Prepare && a.Late:
			text += fmt.Sprint(" late ", a.From, a.Gang)
		case a.Kind == Prepare:
			text += fmt.Sprint(" prepare ", a.From, a.Gang)
		default:
			text += fmt.Sprint(" go ", a.Gang)
		}
	}
	return text
}

func (s *stage) expect(t *testing.T, d time.Duration, want string) {
	t.Helper()
	if got := s.step(d); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// start brings the first gang to its turn.
func (s *stage) start(t *testing.T) {
	t.Helper()
	if got, want := len(s.Begin(s.now)), len(s.frozen); got != want {
		t.Fatalf("%d are stopped first, want %d", got, want)
	}
	for i := range s.frozen {
		s.frozen[i] = true
	}
	s.expect(t, 0, " prepare -1 0")
	s.Prepared()
	s.expect(t, 0, " go 0")
	s.frozen[0] = false
}

func TestGangsTakeTurns(t *testing.T) {
	s := newStage(3)
	s.start(t)
	for i := range 7 {
		from, to := i%3, (i+1)%3
		s.expect(t, testPeriod-1, "")
		s.expect(t, 1, fmt.Sprint(" stop ", from))
		s.expect(t, testPatience-1, "") // it has not stopped yet
		s.frozen[from] = true
		s.expect(t, 0, fmt.Sprint(" prepare ", from, to))
		s.expect(t, time.Hour, "") // the memory is not ready yet
		if !s.Deadline().IsZero() {
			t.Errorf("a deadline while the memory is prepared: %v", s.Deadline())
		}
		s.Prepared()
		s.expect(t, 0, fmt.Sprint(" go ", to))
		s.frozen[to] = false
		if got := s.Deadline().Sub(s.now); got != testPeriod {
			t.Errorf("a turn of %v", got)
		}
	}
}

func TestGangThatDoesNotStop(t *testing.T) {
	s := newStage(2)
	s.start(t)
	s.expect(t, testPeriod, " stop 0")
	s.expect(t, testPatience-1, "")
	s.expect(t, 1, " late 0 1")
	s.Prepared()
	s.expect(t, 0, " go 1")
	s.frozen[1] = false
	s.expect(t, testPeriod, " stop 1")
	s.frozen[1] = true
	s.expect(t, 0, " prepare 1 0")
}

func TestGangsEnd(t *testing.T) {
	s := newStage(3)
	s.start(t)
	s.ended[0] = true // during its turn: the next one does not wait for its end
	s.expect(t, 1, " prepare -1 1")
	s.ended[0], s.frozen[0] = false, true // a process that comes later does not bring it back
	s.ended[1] = true                     // killed, as the next one
	s.expect(t, 0, "")
	s.Prepared()
	s.expect(t, 0, " prepare -1 2")
	s.Prepared()
	s.expect(t, 0, " go 2")
	s.expect(t, time.Hour, "") // the last one is not stopped
	if !s.Deadline().IsZero() || s.Over() {
		t.Errorf("a deadline of the last gang: %v, over %v", s.Deadline(), s.Over())
	}
	s.ended[2] = true
	s.expect(t, 0, "")
	if !s.Over() {
		t.Error("it is not over")
	}
}

func TestGangEndsWhileItStops(t *testing.T) {
	s := newStage(2)
	s.start(t)
	s.expect(t, testPeriod, " stop 0")
	s.ended[1] = true // the next one: the first one goes on
	s.frozen[0] = true
	s.expect(t, 0, " prepare -1 0")
	s.Prepared()
	s.expect(t, 0, " go 0")
}

// In any order of events one gang runs at a time, unless one did not stop in time; each gets its
// turn before another one gets two; and a turn is shortened only by the gang's end.
func TestRotationKeepsItsRules(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 1 + random.IntN(5)
		s := newStage(n)
		goes, began, turns := -1, time.Time{}, make([]int, n)
		acts := s.Begin(s.now)
		for range 400 {
			for _, a := range acts {
				switch {
				case a.Kind == Stop && a.Gang == goes && s.now.Sub(began) < testPeriod:
					t.Fatalf("seed %d: a turn of %v", seed, s.now.Sub(began))
				case a.Kind == Go && (a.Gang != goes && goes >= 0 && !s.frozen[goes] && !s.ended[goes] && s.now.Sub(began) < testPeriod+testPatience):
					t.Fatalf("seed %d: gang %d runs beside gang %d", seed, a.Gang, goes)
				case a.Kind == Go && s.members[a.Gang].ended:
					t.Fatalf("seed %d: gang %d has ended and runs", seed, a.Gang)
				case a.Kind == Go:
					goes, began = a.Gang, s.now
					s.frozen[goes] = false
					turns[goes]++
				}
			}
			checkFair(t, seed, turns, s.ended)
			moveOne(s, random, goes)
			for i := range s.frozen {
				s.Observe(i, s.frozen[i], s.ended[i])
			}
			acts = s.Step(s.now)
		}
		if gone := !slices.Contains(s.ended, false); gone != s.Over() {
			t.Fatalf("seed %d: all ended %v, over %v", seed, gone, s.Over())
		}
	}
}

func checkFair(t *testing.T, seed uint64, turns []int, ended []bool) {
	t.Helper()
	least, most := 1<<30, 0
	for i, n := range turns {
		if !ended[i] {
			least, most = min(least, n), max(most, n)
		}
	}
	if most > least+1 {
		t.Fatalf("seed %d: turns %v", seed, turns)
	}
}

// moveOne lets something happen: time passes, a gang stops or ends, the memory is ready.
func moveOne(s *stage, random *rand.Rand, goes int) {
	s.now = s.now.Add(time.Duration(random.Int64N(int64(testPeriod))))
	gang := random.IntN(len(s.frozen))
	switch random.IntN(8) {
	case 0, 1, 2:
		if gang != goes || s.phase != running {
			s.frozen[gang] = true
		}
	case 3, 4, 5, 6:
		s.Prepared()
	case 7:
		if random.IntN(20) == 0 {
			s.ended[gang] = true
		}
	}
}
