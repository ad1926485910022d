// SPDX-License-Identifier: MIT

package move

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A world simulates nodes, wires and a hub around one program, which writes the numbers from
// 0 on and ends at `length`. A seed determines the order of messages and the faults.
type world struct {
	t      *testing.T
	seed   uint64
	rand   *rand.Rand
	now    time.Time
	job    *Job
	legs   map[Leg]*process
	length int

	user  []int           // what the program's user has
	wait  []int           // output that waits for a checkpoint
	mark  int             // of it, as far as the last Frozen
	store map[string]bool // images that the hub keeps
	over  bool
	why   string
	log   []string
	moves int // that succeeded
	again int // starts from a checkpoint after a loss
}

// A process is a leg as it really is.
type process struct {
	node   string
	state  string // preparing, ready, runs, held, dead
	at     int    // the next number that it writes
	serial Serial
	saves  bool
	queue  []func() // what it has sent and the hub has not received
	cut    bool     // the hub hears nothing any more
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *world) do(list []Action) {
	for _, a := range list {
		w.note("%v: do %d leg %d node %q image %q serial %d %q", w.now.Unix(), a.Do, a.Leg, a.Node, a.Image, a.Serial, a.Text)
		p := w.legs[a.Leg]
		switch a.Do {
		case Open:
			if a.Leg != w.job.last || w.legs[a.Leg] != nil {
				w.fail("leg %d is opened twice", a.Leg)
			}
			p := &process{node: a.Node, state: "preparing"}
			w.legs[a.Leg] = p
		case Begin, Restore:
			if a.Do == Restore && !w.store[a.Image] {
				w.fail("image %q was forgotten", a.Image)
			}
			if p.state == "ready" {
				p.state = "runs"
				if a.Do == Restore {
					fmt.Sscanf(a.Image, "at %d", &p.at)
				}
				w.send(a.Leg, func() { w.do(w.job.Started(w.now, a.Leg)) })
			}
			w.onlyOne(a.Leg)
		case Freeze:
			if p.state == "runs" {
				w.freeze(a.Leg, p, a)
			}
		case Resume:
			if p.serial == a.Serial && (p.state == "held") {
				p.state = "runs"
			}
			p.saves = false
		case Kill:
			if p != nil {
				p.state = "dead"
			}
		case Pass:
			n := w.mark
			if a.All {
				n = len(w.wait)
			}
			w.user = append(w.user, w.wait[:n]...)
			w.wait, w.mark = w.wait[n:], 0
		case Drop:
			w.wait, w.mark = nil, 0
		case Forget:
			delete(w.store, a.Image)
		case Find:
			if node := w.find(a.Not); node != "" && w.rand.IntN(3) > 0 {
				w.again++
				w.do(w.job.Found(w.now, node))
			}
		case Answer:
			if a.Text == "" {
				w.moves++
			}
		case End:
			w.over, w.why = true, a.Text
		}
	}
}

func (w *world) find(not map[string]bool) string {
	for _, i := range w.rand.Perm(4) {
		if name := fmt.Sprint("node", i); !not[name] {
			return name
		}
	}
	return ""
}

// onlyOne checks that no other process of the program can go on, but one that was cut off.
func (w *world) onlyOne(leg Leg) {
	for n, p := range w.legs {
		if n != leg && !p.cut && p.state == "runs" {
			w.fail("legs %d and %d run", n, leg)
		}
	}
}

func (w *world) send(leg Leg, f func()) {
	p := w.legs[leg]
	p.queue = append(p.queue, f)
}

func (w *world) freeze(leg Leg, p *process, a Action) {
	p.serial = a.Serial
	if w.rand.IntN(5) == 0 {
		w.send(leg, func() { w.do(w.job.NotSaved(w.now, leg, a.Serial, "it has a socket")) })
		return
	}
	if a.Hold {
		p.state = "held"
	}
	image := fmt.Sprintf("at %d, saved as %d of leg %d", p.at, a.Serial, leg)
	p.saves = true
	w.send(leg, func() {
		if _, current, _ := w.job.State(); current == leg {
			w.mark = len(w.wait)
		}
	})
	for n := range 1 + w.rand.IntN(10)/9 { // a node may say it twice
		name := fmt.Sprint(image, ", ", n)
		w.send(leg, func() {
			w.store[name] = true
			w.do(w.job.Saved(w.now, leg, a.Serial, name))
		})
	}
}

// write is what the program does in a moment.
func (w *world) write(leg Leg, p *process) {
	if p.at == w.length {
		p.state = "dead"
		w.send(leg, func() { w.do(w.job.Exited(leg)) })
		return
	}
	number := p.at
	p.at++
	w.send(leg, func() {
		if _, current, _ := w.job.State(); current != leg {
			return
		}
		if w.job.Holds() {
			w.wait = append(w.wait, number)
		} else {
			w.user = append(w.user, number)
		}
	})
}

// lose breaks the stream of a leg after what is on its way, or a part of that.
func (w *world) lose(leg Leg, p *process) {
	p.queue = p.queue[:w.rand.IntN(len(p.queue)+1)]
	w.send(leg, func() { p.cut = true; w.do(w.job.Lost(w.now, leg, "the node was lost")) })
	if w.rand.IntN(2) == 0 {
		p.state = "dead"
	} else {
		p.cut = true // it goes on for a while, and nobody hears of it
	}
}

func (w *world) step(faults int) {
	w.now = w.now.Add(100 * time.Millisecond)
	w.do(w.job.Tick(w.now))
	for _, leg := range w.order() {
		p := w.legs[leg]
		switch {
		case p.state == "preparing" && w.rand.IntN(3) == 0:
			p.state = "ready"
			if w.rand.IntN(8) == 0 {
				p.state = "dead"
				w.send(leg, func() { w.do(w.job.Refused(w.now, leg, "this CPU lacks avx2")) })
			} else {
				w.send(leg, func() { w.do(w.job.Ready(w.now, leg)) })
			}
		case p.state == "runs":
			w.write(leg, p)
		}
		if faults > 0 && w.rand.IntN(faults) == 0 && p.state != "dead" && !p.cut {
			w.note("leg %d is lost, %s", leg, p.state)
			w.lose(leg, p)
		}
		for len(p.queue) > 0 && w.rand.IntN(3) > 0 && !w.over {
			f := p.queue[0]
			p.queue = p.queue[1:]
			f()
		}
	}
	if w.rand.IntN(20) == 0 {
		w.do(w.job.Move(w.now, fmt.Sprint("node", w.rand.IntN(4))))
	}
	if w.rand.IntN(60) == 0 {
		must := []string{"", OwnerNeeds, ShutDown}[w.rand.IntN(3)]
		w.do(w.job.Leave(w.now, fmt.Sprint("node", w.rand.IntN(4)), must))
	}
	if w.rand.IntN(40) == 0 {
		w.do(w.job.Checkpoint(w.now))
	}
}

func (w *world) order() (list []Leg) {
	for leg := range w.legs {
		list = append(list, leg)
	}
	slices.Sort(list)
	w.rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

func (w *world) check() {
	for i, n := range w.user {
		if i != n {
			w.fail("the user has %d where %d was due", n, i)
		}
	}
}

func play(t *testing.T, seed uint64, every time.Duration, faults int) *world {
	w := &world{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 2)), now: time.Unix(0, 0), legs: map[Leg]*process{}, store: map[string]bool{}, length: 300}
	r := DefaultRules
	r.Every = every
	j, list := New(w.now, r, "node0")
	w.job = j
	w.do(list)
	for range 100000 {
		if w.over {
			break
		}
		w.step(faults)
		w.check()
	}
	if !w.over {
		w.fail("it never ended: %v", j.state)
	}
	if len(w.store) > 0 {
		w.fail("images are left: %v", w.store)
	}
	for leg, p := range w.legs {
		if p.state != "dead" && !p.cut {
			w.fail("leg %d is left", leg)
		}
	}
	if w.why == "" && len(w.user) != w.length {
		w.fail("the user has %d of %d numbers", len(w.user), w.length)
	}
	return w
}

// Whatever is lost at whatever step: no number is missing or comes twice, and at most one
// process goes on.
func TestSeeds(t *testing.T) {
	ended, lost, moves, again := 0, 0, 0, 0
	for seed := range uint64(600) {
		w := play(t, seed, time.Duration(seed%3)*2*time.Second, 60+int(seed%200))
		if moves, again = moves+w.moves, again+w.again; w.why == "" {
			ended++
		} else {
			lost++
		}
	}
	t.Logf("%d ended, %d were lost, %d moves and checkpoints on request, %d starts from a checkpoint", ended, lost, moves, again)
	if ended < 50 || moves < 500 || again < 100 {
		t.Error("too little happened")
	}
}

// Without faults every program ends, however often it is moved.
func TestNoFaults(t *testing.T) {
	for seed := range uint64(100) {
		w := play(t, seed, time.Duration(seed%2)*time.Second, 0)
		must := w.job.Image() == "" && (strings.HasPrefix(w.why, OwnerNeeds) || strings.HasPrefix(w.why, ShutDown))
		if w.why != "" && !strings.Contains(w.why, "avx2") && !must {
			w.fail("it ended: %s", w.why)
		}
	}
}

// A program that gives no image leaves the owner's computer, and a node that is shut down, all
// the same, and does not come back.
func TestOwnerNeedsComputer(t *testing.T) {
	now := time.Unix(0, 0)
	for _, refuse := range []func(j *Job) []Action{
		func(j *Job) []Action { return j.NotSaved(now, 1, j.serial, "it has a socket") },
		func(j *Job) []Action { return j.Tick(now.Add(time.Hour)) },
	} {
		for _, c := range []struct {
			must  string
			saved bool
			state State
		}{{OwnerNeeds, false, Ended}, {OwnerNeeds, true, Starting}, {ShutDown, false, Ended}, {ShutDown, true, Starting},
			{"", false, Running}, {"", true, Running}} {
			r := DefaultRules
			if c.saved {
				r.Every = 24 * time.Hour
			}
			j, _ := New(now, r, "home")
			j.Ready(now, 1)
			j.Started(now, 1)
			if c.saved {
				j.Checkpoint(now)
				j.Saved(now, 1, j.serial, "image")
			}
			j.Leave(now, "other", c.must)
			j.Ready(now, 2)
			list := refuse(j)
			state, leg, _ := j.State()
			killed := slices.ContainsFunc(list, func(a Action) bool { return a.Do == Kill && a.Leg == 1 })
			told := slices.ContainsFunc(list, func(a Action) bool {
				return (a.Do == End || a.Do == Tell) && a.Text != "" && strings.HasPrefix(a.Text, c.must)
			})
			if state != c.state || killed != (c.must != "") || c.must != "" && !told {
				t.Errorf("%+v: it is %v; its process was killed: %t; %+v", c, state, killed, list)
			}
			if c.state != Starting {
				continue
			}
			if leg != 2 {
				t.Errorf("leg %d counts", leg)
			}
			list = j.Refused(now, 2, "a file has changed")
			if i := slices.IndexFunc(list, func(a Action) bool { return a.Do == Find }); i < 0 || !list[i].Not["home"] {
				t.Errorf("it may go back to its owner's computer: %+v", list)
			}
		}
	}
}
