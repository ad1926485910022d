// SPDX-License-Identifier: MIT

package rolls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// The values at each limit of a specification are taken, and the next ones are refused.
func TestSpecLimits(t *testing.T) {
	longest := "uid=1" + strings.Repeat(" ", policyMax-5)
	for what, c := range map[string]struct {
		change func(s *Spec)
		ok     bool
	}{
		"the longest id":       {func(s *Spec) { s.ID = strings.Repeat("x", idMax) }, true},
		"a longer id":          {func(s *Spec) { s.ID = strings.Repeat("x", idMax+1) }, false},
		"the shortest trial":   {func(s *Spec) { s.Trial = time.Second }, true},
		"a shorter trial":      {func(s *Spec) { s.Trial = time.Second - 1 }, false},
		"the longest trial":    {func(s *Spec) { s.Trial = trialMax }, true},
		"the longest lease":    {func(s *Spec) { s.Lease = time.Minute }, true},
		"a longer lease":       {func(s *Spec) { s.Lease = time.Minute + 1 }, false},
		"the shortest lease":   {func(s *Spec) { s.Lease = 1 }, true},
		"nobody may be stuck":  {func(s *Spec) { s.Health.Stuck = -1 }, false},
		"all calls fail":       {func(s *Spec) { s.Health.Errors = 1000 }, true},
		"a digest too short":   {func(s *Spec) { s.Package = s.Package[1:] }, false},
		"digits of a digest":   {func(s *Spec) { s.Package = strings.Repeat("09af", 16) }, true},
		"below the digits":     {func(s *Spec) { s.Package = strings.Repeat("/", 64) }, false},
		"above the digits":     {func(s *Spec) { s.Package = strings.Repeat(":", 64) }, false},
		"below the letters":    {func(s *Spec) { s.Package = strings.Repeat("`", 64) }, false},
		"above the letters":    {func(s *Spec) { s.Package = strings.Repeat("g", 64) }, false},
		"upper-case digits":    {func(s *Spec) { s.Package = strings.Repeat("A", 64) }, false},
		"as many packages":     {func(s *Spec) { s.Variants = manyVariants(variantsMax); s.Package = digests[0] }, true},
		"a wider first policy": {func(s *Spec) { s.Policy = "" }, false},
	} {
		s := testSpec
		c.change(&s)
		if err := s.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := testSpec
	s.Canary = longest + " "
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a policy of %d bytes", policyMax+1)) {
		t.Errorf("a longer policy: %v", err)
	}
	s.Canary = longest
	if err := s.Check(); err != nil && strings.Contains(err.Error(), "a policy of") {
		t.Errorf("the longest policy: %v", err)
	}
}

// What the hub refuses to begin or to do, with the words that say what to do.
func TestHubRefuses(t *testing.T) {
	f := newFleet(t, "a")
	begin := func(change func(s *Spec), nodes ...string) error {
		s := testSpec
		change(&s)
		return f.hub.Begin("user:7:test", s, testPlan(t, "all"), nodes, nil)
	}
	for what, err := range map[string]error{
		"the roll has no valid id":        begin(func(s *Spec) { s.ID = "" }, "a"),
		"leases must end within":          begin(func(s *Spec) { s.Lease-- }, "a"),
		"no node can take kernel updates": begin(func(*Spec) {}),
		ErrNoRoll.Error():                 f.hub.Act("user:7:test", "fix", ActionStop),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	if err := begin(func(*Spec) {}, "a"); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.Act("user:7:test", "fix", "dance"); err == nil || !strings.Contains(err.Error(), `"dance" is not an action on a roll`) {
		t.Error(err)
	}
	if err := f.hub.Act("user:7:test", "fix", ActionResume); err == nil || !strings.Contains(err.Error(), "is running: it cannot be changed by resume") {
		t.Error(err)
	}
	for i := 1; i < rollsMax; i++ {
		if err := begin(func(s *Spec) { s.ID, s.Name = fmt.Sprint("id", i), fmt.Sprint("fix", i) }, "a"); err != nil {
			t.Fatalf("roll %d: %v", i+1, err)
		}
	}
	more := func(s *Spec) { s.ID, s.Name = "more", "more" }
	if err := begin(more, "a"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the hub has %d rolls", rollsMax)) {
		t.Errorf("one roll more: %v", err)
	}
	list, err := f.hub.List("")
	if err != nil || len(list) != rollsMax || !slices.IsSortedFunc(list, func(a, b Status) int { return strings.Compare(a.Spec.Name, b.Spec.Name) }) {
		t.Errorf("%d rolls, %v", len(list), err)
	}
	if _, err := f.hub.List("nothing"); !errors.Is(err, ErrNoRoll) {
		t.Errorf("a roll that is not there: %v", err)
	}
	// A damaged record counts.
	if err := os.WriteFile(filepath.Join(f.dir, "hub", "fix.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	if err := begin(more, "a"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the hub has %d rolls", rollsMax)) {
		t.Errorf("one roll more beside a damaged one: %v", err)
	}
}

// A node is told of a roll when it was silent for a while, and not before.
func TestUnheardNodes(t *testing.T) {
	f := newFleet(t)
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {askEvery - 1, 0}, {1, 1}, {askEvery, 1}} {
		f.now = f.now.Add(c.later)
		if got := f.hub.Unheard("a"); len(got) != c.want || c.want == 1 && (got[0].Spec.ID != "one" || got[0].Order.Boot != "") {
			t.Errorf("after %v: %+v", c.later, got)
		}
	}
	f.now = f.now.Add(askEvery)
	f.hub.Report("a", Report{ID: "one", Report: roll.Report{Boot: "1", Stamp: 1}})
	if got := f.hub.Unheard("a"); len(got) != 0 {
		t.Errorf("after a report: %+v", got)
	}
	if s := f.status().Nodes[0]; s.Silent != 0 {
		t.Errorf("silent for %v s", s.Silent)
	}
	f.now = f.now.Add(2 * time.Second)
	if s := f.status().Nodes[0]; s.Silent != 2 {
		t.Errorf("silent for %v s", s.Silent)
	}
}

// What a node remembers must be that of its own update. The rest is told and left.
func TestNodeForgetsWhatIsDamaged(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the canary", func() bool { return f.nodes["a"].k.phase == roll.Canary })
	file := filepath.Join(f.dir, "a", "fix.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ text, want string }{
		"another update": {strings.Replace(string(text), `"name":"fix"`, `"name":"fox"`, 1), "it is of another update"},
		"no id":          {strings.Replace(string(text), `"id":"one"`, `"id":""`, 1), "the roll has no valid id"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.nodes["a"].logs = nil
		f.start("a")
		if logs := strings.Join(f.nodes["a"].logs, "\n"); !strings.Contains(logs, c.want) || len(f.nodes["a"].rolls) != 0 {
			t.Errorf("%s: %q, %d rolls", what, logs, len(f.nodes["a"].rolls))
		}
	}
}

// order is an order of the hub to a node, outside a roll's course.
func (f *fleet) order(name string, s Spec) {
	f.nodes[name].take(f.t.Context(), Order{Spec: s})
}

// A node bounds how many rolls it knows, refuses a damaged one, and drops orders that find
// no room.
func TestNodeBounds(t *testing.T) {
	f := newFleet(t, "a")
	n := f.nodes["a"]
	for i := range rollsMax {
		s := testSpec
		s.Name = fmt.Sprint("fix", i)
		f.order("a", s)
	}
	f.order("a", testSpec)
	if logs := strings.Join(n.logs, "\n"); len(n.rolls) != rollsMax || !strings.Contains(logs, fmt.Sprintf("the roll of fix is refused: this node knows %d already", rollsMax)) {
		t.Errorf("%d rolls: %s", len(n.rolls), logs)
	}
	s := testSpec
	s.Name, s.ID = "fix0", "two"
	f.order("a", s)
	if n.rolls["fix0"].spec.ID != "two" {
		t.Error("another roll of a known update is refused")
	}
	s.Trial = 0
	s.ID = "three"
	n.logs = nil
	f.order("a", s)
	if logs := strings.Join(n.logs, "\n"); !strings.Contains(logs, "the hub's roll of an update is refused: a trial of 0s") || n.rolls["fix0"].spec.ID != "two" {
		t.Errorf("%s", logs)
	}
	for range cap(n.orders) + 1 {
		n.Take(Order{})
	}
	if !n.Ready() || len(n.orders) != cap(n.orders) {
		t.Errorf("ready %v, %d orders", n.Ready(), len(n.orders))
	}
}

// resumed starts an agent anew in the same boot after the update was on trial.
func resumed(t *testing.T, change func(k *fakeKernel)) (*testNode, *local) {
	t.Helper()
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the trial", func() bool { return f.nodes["a"].k.phase == roll.Full })
	n := f.nodes["a"]
	n.k.did, n.logs = nil, nil
	change(n.k)
	f.start("a")
	return n, n.rolls["fix"]
}

// A kernel that fails while the agent starts again.
func TestResumeWithAKernelThatFails(t *testing.T) {
	n, l := resumed(t, func(k *fakeKernel) { k.unready = true })
	if l.node.Refused != "the device is closed" || len(n.k.did) != 0 {
		t.Errorf("refused %q, did %q", l.node.Refused, n.k.did)
	}
	if l.tell(errors.New("x")); l.lastLine != "x" {
		t.Errorf("the last line is %q", l.lastLine)
	}
	_, l = resumed(t, func(k *fakeKernel) { k.refuse["loaded"] = errors.New("no policy") })
	if l.node.Phase != roll.Loaded || l.node.Refused != "no policy" {
		t.Errorf("%v, refused %q", l.node.Phase, l.node.Refused)
	}
	n, l = resumed(t, func(k *fakeKernel) { k.state = Kept; k.refuse["commit"] = errors.New("not twice") })
	if l.node.Phase != roll.Committed || linesOf(n.logs, "fix: not twice") != 1 {
		t.Errorf("%v, %q", l.node.Phase, n.logs)
	}
	n, l = resumed(t, func(k *fakeKernel) { k.state = Absent; k.refuse["fail"] = errors.New("the disk is full") })
	if l.node.Phase != roll.Reverted || l.node.Bad != "it is not in force any more" || linesOf(n.logs, "fix: the failed package is not blocked on this node yet: the disk is full") != 1 || !slices.Contains(n.k.did, "unload") {
		t.Errorf("%v, bad %q, %q, did %q", l.node.Phase, l.node.Bad, n.logs, n.k.did)
	}
}

// An update that was only loaded when the agent ended is looked at again.
func TestResumeOfALoadedUpdate(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the load", func() bool { l := f.nodes["a"].rolls["fix"]; return l != nil && l.node.Phase == roll.Loaded })
	f.nodes["a"].k.state = Kept // by an operator
	f.start("a")
	if l := f.nodes["a"].rolls["fix"]; l.node.Phase != roll.Committed {
		t.Errorf("%v after the update was committed", l.node.Phase)
	}
}

// A kernel that changes what the roll did is noticed at the next look.
func TestLooks(t *testing.T) {
	n, l := resumed(t, func(k *fakeKernel) {})
	n.k.unready = true
	n.tick()
	n.tick()
	if linesOf(n.logs, "fix: the device is closed") != 1 || l.node.Phase != roll.Loaded {
		t.Errorf("%q, %v", n.logs, l.node.Phase)
	}
	n.k.unready, n.k.state, n.k.inside = false, Kept, []string{"cat 7"}
	n.tick()
	if l.node.Bad != "it was committed, and nobody of this roll ordered that" || !slices.Equal(l.node.Inside, n.k.inside) {
		t.Errorf("bad %q, inside %q", l.node.Bad, l.node.Inside)
	}
}

// An update that was committed before a boot may come back later, and is told when it does not.
func TestRestoreTime(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the commit", func() bool { return f.count(committed) == 1 })
	f.step()
	n := f.nodes["a"]
	n.k.boot, n.k.now, n.k.state, n.logs = "2", restoreTime, Absent, nil
	f.start("a")
	n.tick()
	if l := n.rolls["fix"]; l.node.Phase != roll.Committed || linesOf(n.logs, "did not come back") != 0 {
		t.Errorf("too early: %v, %q", l.node.Phase, n.logs)
	}
	n.k.now++
	n.tick()
	if l := n.rolls["fix"]; l.node.Phase != roll.Reverted || linesOf(n.logs, "it was committed, and did not come back after the boot: 'skep service status'") != 1 || l.node.Bad != "" {
		t.Errorf("%v, bad %q, %q", l.node.Phase, l.node.Bad, n.logs)
	}
}

// A committed update that a node turned off after boots that failed has harmed it: the hub gives
// it to no other node, and this node blocks it. One that was turned off after boots whose end
// nobody can explain is not in force there, which the hub is told; another roll brings it again.
func TestCommittedUpdateIsTurnedOff(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	f.run("the commit", func() bool { return f.count(committed) == 2 })
	a, b := f.nodes["a"], f.nodes["b"]
	b.k.boot, b.k.now, b.k.state, b.k.off = "2", time.Minute, Absent, "3 boots with [fix] ended without a shutdown"
	f.start("b")
	waits := func(want string) func() bool {
		return func() bool { s, err := f.hub.List("fix"); return err == nil && s[0].Nodes[1].Waits == want }
	}
	f.run("the hub knows", waits(b.k.off))
	if s, err := f.hub.List("fix"); err != nil || s[0].Nodes[1].Failed != "" || f.hub.rolls["fix"].Roll.Blocked {
		t.Errorf("unexplained ends are no harm: %+v, %v", s, err)
	}
	b.k.did, b.k.fetched = nil, ""
	s := testSpec
	s.ID = "two"
	f.begin(s, "all")
	f.run("it is loaded again", func() bool { return slices.Contains(b.k.did, "load") })
	b.k.off = ""
	f.awaitState(roll.Done)

	a.k.boot, a.k.now, a.k.state, a.k.off, a.k.harm = "2", time.Minute, Absent, "2 boots with [fix] ended early or in a panic", true
	f.start("a")
	f.run("the harm", func() bool { return f.hub.rolls["fix"].Roll.Blocked })
	if r := f.hub.rolls["fix"].Roll; r.Harmed != "a: "+a.k.off || a.k.failed != a.k.off || a.k.content != "content of fix" {
		t.Errorf("harmed %q; blocked %q: %q", r.Harmed, a.k.content, a.k.failed)
	}
	f.run("it is over", func() bool { s, err := f.hub.List("fix"); return err == nil && s[0].Nodes[0].Phase == "reverted" })
	s.ID = "three"
	if err := f.hub.Begin("user:7:test", s, testPlan(t, "all"), []string{"a", "b"}, nil); err == nil || !strings.Contains(err.Error(), "harmed a node") {
		t.Errorf("the hub gives it to others: %v", err)
	}
}

// A node that cannot store what it is about to do does not do it.
func TestNodeThatCannotStore(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.step()
	n := f.nodes["a"]
	dir := filepath.Join(f.dir, "a")
	f.run("the verification", func() bool { return n.rolls["fix"] != nil })
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		f.step()
	}
	if slices.Contains(n.k.did, "load") || linesOf(n.logs, "fix: what this node does with the update cannot be stored") == 0 {
		t.Errorf("did %q, %q", n.k.did, n.logs)
	}
}

// A committed update with the same package is not applied again by another roll.
func TestRollOfACommittedPackage(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	f.run("the commit", func() bool { return f.count(committed) == 1 })
	k := f.nodes["a"].k
	k.did = nil
	s := testSpec
	s.ID = "two"
	f.begin(s, "all")
	f.awaitState(roll.Stopped) // no node needs it
	if l := f.nodes["a"].rolls["fix"]; len(k.did) != 0 || l.spec.ID != "two" || l.node.Phase != roll.Committed {
		t.Errorf("did %q, %v", k.did, l.node.Phase)
	}
}

// A node that took over a committed update from an earlier roll blocks its package after a boot
// that harmed it, though neither roll gives it the package again.
func TestHarmOfAPackageThatWasTakenOver(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	f.run("the commit", func() bool { return f.count(committed) == 1 })
	s := testSpec
	s.ID = "two"
	f.begin(s, "all")
	f.awaitState(roll.Stopped)
	k := f.nodes["a"].k
	k.boot, k.now, k.state, k.off, k.harm = "2", time.Minute, Absent, "2 boots with [fix] ended early or in a panic", true
	f.start("a")
	f.run("the block", func() bool { return k.failed != "" })
	if k.failed != k.off || k.content != "content of fix" || k.fetched == k.boot {
		t.Errorf("blocked %q: %q; fetched in boot %q", k.content, k.failed, k.fetched)
	}
}

// How often a node reports: at its end less, otherwise with each look.
func TestReportIntervals(t *testing.T) {
	for _, c := range []struct {
		phase   roll.Phase
		refused string
		want    time.Duration
	}{
		{roll.None, "", 0}, {roll.None, "no", restEvery}, {roll.Staged, "no", restEvery}, {roll.Loaded, "no", 0},
		{roll.Full, "", 0}, {roll.Committed, "", restEvery}, {roll.Leaving, "", 0}, {roll.Reverted, "", restEvery},
	} {
		l := &local{node: &roll.Node{Phase: c.phase, Refused: c.refused}}
		if got := l.every(); got != c.want {
			t.Errorf("%v, refused %q: every %v", c.phase, c.refused, got)
		}
	}
}

// What counts as a change of a roll, and its lines.
func TestChangesOfARoll(t *testing.T) {
	for what, c := range map[string]struct {
		change func(h *roll.Hub)
		lines  string
	}{
		"nothing":         {func(*roll.Hub) {}, ""},
		"the state":       {func(h *roll.Hub) { h.State = roll.Paused }, "paused"},
		"the reason":      {func(h *roll.Hub) { h.Why = "a: harm" }, "running: a: harm"},
		"a wave":          {func(h *roll.Hub) { h.Begun = 1 }, "wave 1 of 1 begins"},
		"blocked":         {func(h *roll.Hub) { h.Blocked = true }, ""},
		"decided":         {func(h *roll.Hub) { h.Decided = 1 }, ""},
		"a node more":     {func(h *roll.Hub) { h.Nodes["c"] = &roll.Member{} }, ""},
		"a goal":          {func(h *roll.Hub) { h.Nodes["b"].Goal = roll.Full }, ""},
		"a chosen goal":   {func(h *roll.Hub) { h.Nodes["b"].Goal, h.Nodes["b"].Chosen = roll.Full, true }, "b: node"},
		"a node left out": {func(h *roll.Hub) { h.Nodes["b"].Failed = "it was silent" }, "b is left out: it was silent"},
	} {
		h := roll.NewHub(testPlan(t, "all"), []string{"a", "b"})
		r := &record{Roll: h, written: markOf(h)}
		c.change(h)
		if got := strings.Join(r.describe(), "; "); r.changed("") != (what != "nothing") || !strings.EqualFold(got, c.lines) {
			t.Errorf("%s: changed %v, %q", what, r.changed(""), got)
		}
		if of := strings.Contains(what, "goal") || strings.Contains(what, "left out"); of && (r.changed("a") || !r.changed("b")) {
			t.Errorf("%s: of a %v, of b %v", what, r.changed("a"), r.changed("b"))
		}
	}
	r := &record{Roll: &roll.Hub{}}
	for state, want := range map[roll.State]time.Duration{roll.Running: 0, roll.Paused: 0, roll.Done: time.Second, roll.Stopped: ceiling / 4} {
		if r.Roll.State = state; r.rest() != want || r.over() != (want > 0) {
			t.Errorf("%v: rests %v, over %v", state, r.rest(), r.over())
		}
	}
}

// Without an agent no package comes, and the wait ends with its context or with the agent.
func TestFetchOfAHost(t *testing.T) {
	h, err := NewHost(t.TempDir(), &fakeKernel{boot: "1"}, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.fetch(t.Context(), testSpec.Package); err == nil || err.Error() != "no agent is connected" {
		t.Error(err)
	}
	near, far := net.Pipe()
	defer far.Close()
	h.agent = newWire(near)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		far.Read(make([]byte, 1000)) // the question
		cancel()
	}()
	if _, err := h.fetch(ctx, testSpec.Package); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	near.Close()
	if _, err := h.fetch(t.Context(), testSpec.Package); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("over a closed connection: %v", err)
	}
	h.send(Report{ID: "one"}) // is lost, and ends nothing
}

// A package is in the file that is named, or the reason why it is not; the next message
// follows in each case.
func TestPackagesOfAHost(t *testing.T) {
	h, err := NewHost(t.TempDir(), &fakeKernel{boot: "1"}, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	take := func(text string, m message) (packageFile, string, error) {
		got := make(chan packageFile, 1)
		h.waits[testSpec.Package] = got
		w := newWire(&pipeConn{in: strings.NewReader(text)})
		if err := h.takePackage(w, m); err != nil {
			return packageFile{}, "", err
		}
		rest, _ := io.ReadAll(w.in)
		return <-got, string(rest), nil
	}
	f, rest, err := take("abcdef", message{Package: testSpec.Package, Size: 3})
	if text, e := os.ReadFile(f.path); err != nil || f.err != nil || string(text) != "abc" || e != nil || rest != "def" {
		t.Errorf("%+v, %q, %q, %v", f, text, rest, err)
	}
	if f, rest, err = take("def", message{Package: testSpec.Package, Error: strings.Repeat("x", 2*textMax)}); err != nil || f.err == nil || len(f.err.Error()) != textMax || rest != "def" {
		t.Errorf("%+v, %q, %v", f, rest, err)
	}
	if _, _, err = take("ab", message{Package: testSpec.Package, Size: 3}); err == nil {
		t.Error("a package that was cut is taken")
	}
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if f, rest, err = take("abcdef", message{Package: testSpec.Package, Size: 3}); err != nil || !errors.Is(f.err, os.ErrNotExist) || rest != "def" {
		t.Errorf("without a folder: %+v, %q, %v", f, rest, err)
	}
	if _, _, err := take("", message{Package: "x"}); err == nil || !strings.Contains(err.Error(), "that nobody asked for") {
		t.Error(err)
	}
}

// The largest package may be named on a line, and a larger one may not.
func TestSizesOnTheWire(t *testing.T) {
	for size, ok := range map[int64]bool{0: true, packageSize: true, packageSize + 1: false, -1: false} {
		w := newWire(&pipeConn{in: strings.NewReader(fmt.Sprintf("{\"size\":%d}\n", size))})
		if m, err := w.read(); (err == nil) != ok || ok && m.Size != size {
			t.Errorf("%d bytes: %+v, %v", size, m, err)
		}
	}
}

// Two rolls share a function or not, and packages of several kernels name each once.
func TestFunctionsOfARoll(t *testing.T) {
	f := newFleet(t, "a")
	packages := append(changes("z", "a"), changes("a", "b")...)
	if err := f.hub.Begin("user:7:test", variantSpec(), testPlan(t, "all"), []string{"a"}, packages); err != nil {
		t.Fatal(err)
	}
	if got := f.hub.rolls["fix"].Functions; !slices.Equal(got, []string{"a", "b", "z"}) {
		t.Errorf("%q", got)
	}
}

// Steps without an order of operators are no lines, and who acts is named.
func TestLinesWithoutAnOrder(t *testing.T) {
	r := &record{Spec: testSpec, Roll: roll.NewHub(testPlan(t, "all"), []string{"a"}), audited: map[string]bool{}}
	r.Roll.Nodes["a"].Last = roll.Report{Phase: roll.Committed}
	if got := r.steps(time.Now()); got != nil {
		t.Errorf("%+v", got)
	}
	r.by = "user:0:root"
	r.Roll.State = roll.Stopped
	got := r.turn(time.Unix(5, 0))
	if len(got) != 1 || got[0].Who != r.by || got[0].What != trust.VerbStopped || got[0].Content != testSpec.Package || !got[0].Time.Equal(time.Unix(5, 0)) {
		t.Errorf("%+v", got)
	}
	if !r.contents()[testSpec.Package] || len(r.contents()) != 1 {
		t.Errorf("%v", r.contents())
	}
	for _, digest := range (&Spec{Package: "x", Variants: []Variant{{Package: "x"}, {Package: "y"}}}).digests() {
		if digest != "x" && digest != "y" {
			t.Error(digest)
		}
	}
}

// A folder that cannot be made says so at once: a hub without it would forget its rolls.
func TestHubWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	silent := func(string, string) {}
	if h, err := OpenHub(filepath.Join(file, "rolls"), time.Now, silent); h != nil || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v, %v", h, err)
	}
	dir := filepath.Join(t.TempDir(), "state", "rolls")
	if _, err := OpenHub(dir, time.Now, silent); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info, err)
	}
}
