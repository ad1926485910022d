// SPDX-License-Identifier: MIT

//go:build linux

package rolls

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// cyclesVariable names a file with the seconds of update cycles that were measured, one a
// line: `make bench T=update-fleet` measures them in a virtual machine.
const cyclesVariable = "SKEP_CYCLES"

// A benchNode is a simulated machine whose kernel takes its time to load an update.
type benchNode struct {
	*roll.Node
	f    *benchFleet
	busy time.Duration
	seen trust.Seen
	told time.Duration // when the figures were sent last
}

func (n *benchNode) Stage() error                           { return nil }
func (n *benchNode) Select(roll.Phase, time.Duration) error { return nil }
func (n *benchNode) Commit() error                          { return nil }
func (n *benchNode) Revert() error                          { return nil }
func (n *benchNode) Load() error                            { n.busy = n.f.clock + n.f.cycle(); return nil }

// report returns what the node sends, or nothing while it loads.
func (n *benchNode) report() []byte {
	if n.f.clock < n.busy {
		return nil
	}
	n.Tick(n.f.clock)
	v := Report{ID: testSpec.ID, Report: n.Node.Report(n.f.clock), Knows: knowsLast, Seen: &n.seen}
	if v.Report.Phase >= roll.Loaded && n.f.clock >= n.told+figuresEvery {
		n.told, v.Functions = n.f.clock, []Function{{Symbol: "arp_ioctl", Old: Version{Calls: 90}, New: Version{Calls: 10}}}
	}
	text, err := json.Marshal(v)
	if err != nil {
		n.f.b.Fatal(err)
	}
	return text
}

func (n *benchNode) take(text []byte) {
	var o Order
	if err := json.Unmarshal(text, &o); err != nil {
		n.f.b.Fatal(err)
	}
	if o.Audit != nil && o.Audit.From == n.seen.Lines {
		if err := n.seen.Follow(o.Audit.Now, o.Audit.Proof); err != nil {
			n.f.b.Fatal(err)
		}
		n.seen = o.Audit.Now
	}
	n.Obey(n.f.clock, o.Order)
}

// A benchFleet is a hub with its files, and simulated machines. The clock is simulated.
type benchFleet struct {
	b     *testing.B
	hub   *Hub
	nodes []*benchNode
	began time.Time
	clock time.Duration
	cycle func() time.Duration

	reports, received, sent int
	spent                   time.Duration // processor time of the hub
}

// benchTimes have short waiting times: what the hub spends in a second does not depend on them.
func benchTimes() roll.Times {
	t := roll.DefaultTimes
	t.Canary, t.Settle = 2*time.Second, 10*time.Second
	return t
}

func newBenchFleet(b *testing.B, count int, cycle func() time.Duration) *benchFleet {
	f := &benchFleet{b: b, began: time.Now(), cycle: cycle}
	var err error
	f.hub, err = OpenHub(b.TempDir(), func() time.Time { return f.began.Add(f.clock) }, func(string, string) {})
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for i := range count {
		n := &benchNode{f: f}
		n.Node = &roll.Node{Name: fmt.Sprintf("n%03d", i), Boot: "1", Engine: n, Lease: roll.DefaultTimes.Lease, Fits: true}
		f.nodes, names = append(f.nodes, n), append(names, n.Name)
	}
	waves, err := roll.ParseWaves("1,5%,25%,all")
	if err == nil {
		err = f.hub.Begin("user:0:root", testSpec, roll.Plan{Waves: waves, Times: benchTimes(), MaxUnavailable: 1}, names, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// step lets each node report, and the hub answer. What the hub spends is from the bytes of the
// reports to those of the orders, and its files.
func (f *benchFleet) step() {
	texts := make([][]byte, len(f.nodes))
	for i, n := range f.nodes {
		texts[i] = n.report()
	}
	before := processorTime(f.b)
	for i, text := range texts {
		if text == nil {
			continue
		}
		var v Report
		if err := json.Unmarshal(text, &v); err != nil {
			f.b.Fatal(err)
		}
		f.reports, f.received = f.reports+1, f.received+len(text)
		o, ok := f.hub.Report(f.nodes[i].Name, v)
		if texts[i] = nil; !ok {
			continue
		}
		if text, err := json.Marshal(o); err == nil {
			texts[i], f.sent = text, f.sent+len(text)
		}
	}
	f.hub.Tick()
	f.spent += processorTime(f.b) - before
	for i, text := range texts {
		if text != nil {
			f.nodes[i].take(text)
		}
	}
	f.clock += reportEvery
}

// BenchmarkFleet rolls an update out to 1,000 simulated machines without faults, with the times
// that the paper measured for one machine and with those that were measured in a virtual
// machine, and reports how long the fleet takes with the default times and what the hub spends.
func BenchmarkFleet(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 23))
	b.Run("paper", func(b *testing.B) {
		rollFleet(b, func() time.Duration { return 680*time.Millisecond + time.Duration(rng.IntN(1620))*time.Millisecond })
	})
	b.Run("measured", func(b *testing.B) {
		cycles := readCycles(b)
		rollFleet(b, func() time.Duration { return cycles[rng.IntN(len(cycles))] })
	})
}

func readCycles(b *testing.B) (list []time.Duration) {
	file := os.Getenv(cyclesVariable)
	if file == "" {
		b.Skip(cyclesVariable + " names no file")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		d, err := time.ParseDuration(word + "s")
		if err != nil || d <= 0 {
			b.Fatalf("%s: %q is no time: %v", file, word, err)
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		b.Fatalf("%s is empty", file)
	}
	return list
}

func rollFleet(b *testing.B, cycle func() time.Duration) {
	for b.Loop() {
		f := newBenchFleet(b, 1000, cycle)
		state := f.hub.rolls[testSpec.Name].Roll
		for state.State != roll.Done {
			if f.step(); state.State == roll.Stopped || f.clock > time.Hour {
				b.Fatalf("it is %v: %s", state.State, state.Why)
			}
		}
		seconds, waves, d := f.clock.Seconds(), time.Duration(len(state.Plan.Waves)), roll.DefaultTimes
		waits := waves * (state.Plan.Times.Canary + state.Plan.Times.Settle)
		b.ReportMetric((f.clock - waits).Seconds(), "beyond-waits-s")
		b.ReportMetric((f.clock - waits + waves*(d.Canary+d.Settle)).Minutes(), "fleet-min")
		b.ReportMetric(float64(f.reports)/seconds, "reports/s")
		b.ReportMetric(100*f.spent.Seconds()/seconds, "hub-cpu-%")
		b.ReportMetric(float64(f.spent.Microseconds())/float64(f.reports), "hub-us/report")
		b.ReportMetric(float64(f.received)/seconds/1e6, "in-MB/s")
		b.ReportMetric(float64(f.sent)/seconds/1e6, "out-MB/s")
	}
}
