// SPDX-License-Identifier: MIT

package rolls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skep/dynamos/update/roll"
)

// A fakeKernel is the kernel of a node, and what root sees of it.
type fakeKernel struct {
	now     time.Duration
	began   time.Time // if set, the clock runs by itself
	boot    string
	build   string // the kernel's build-id
	did     []string
	state   State
	end     string
	until   time.Duration
	phase   roll.Phase
	refuse  map[string]error
	failed  string
	content string // that failed
	fetched string // the boot in which the package was fetched
	loads   func() // called when the module is loaded, if set
	inside  []string
	unready bool // Look fails
	// superseded is why the update ended, and others are updates of other names.
	superseded bool
	others     map[string]*fakeKernel
	calls      atomic.Uint64
	off        string // why a committed update is not restored
	harm       bool
	stuck      string
}

func (k *fakeKernel) Boot() string { return k.boot }
func (k *fakeKernel) Clock() time.Duration {
	if !k.began.IsZero() {
		return time.Since(k.began)
	}
	return k.now
}

func (k *fakeKernel) Build() (string, error) { return k.build, nil }

func (k *fakeKernel) Open(s Spec, read func(string) ([]byte, error)) Update {
	if other := k.others[s.Name]; other != nil {
		return &fakeUpdate{other, s, read}
	}
	return &fakeUpdate{k, s, read}
}

type fakeUpdate struct {
	k    *fakeKernel
	spec Spec
	read func(string) ([]byte, error)
}

func (u *fakeUpdate) Package() (string, error) {
	digest, ok := u.spec.PackageFor(u.k.build)
	if !ok {
		return "", errors.New("none of the packages is for this kernel")
	}
	return digest, nil
}

func (u *fakeUpdate) do(what string) error {
	u.k.did = append(u.k.did, what)
	return u.k.refuse[what]
}

func (u *fakeUpdate) Stage() error {
	digest, err := u.Package()
	if err != nil {
		return err
	}
	text, err := u.read(digest)
	if err != nil {
		return err
	}
	u.k.fetched = u.k.boot
	return u.do("stage " + string(text))
}

func (u *fakeUpdate) Load() error {
	if u.k.loads != nil {
		u.k.loads()
	}
	u.k.state = OnTrial
	return u.do("load")
}

func (u *fakeUpdate) Select(p roll.Phase, until time.Duration) error {
	u.k.phase, u.k.until = p, until
	return u.do(p.String())
}
func (u *fakeUpdate) Commit() error { u.k.state = Kept; return u.do("commit") }
func (u *fakeUpdate) Revert() error { u.k.state = Drains; return u.do("revert") }
func (u *fakeUpdate) Unload() error { return u.do("unload") }

// Content is not asked of the kernel. After a boot the package is gone.
func (u *fakeUpdate) Content() (string, error) {
	if u.k.fetched != u.k.boot {
		return "", fmt.Errorf("%w: the package is being fetched", roll.ErrLater)
	}
	return "content of " + u.spec.Name, nil
}

func (u *fakeUpdate) Fail(content, why string) error {
	err := u.do("fail")
	if err == nil {
		u.k.failed, u.k.content = why, content
	}
	return err
}

func (u *fakeUpdate) Look() (View, error) {
	if u.k.unready {
		return View{}, errors.New("the device is closed")
	}
	return View{State: u.k.state, End: u.k.end, Inside: u.k.inside, Superseded: u.k.superseded, Off: u.k.off, Harm: u.k.harm, Stuck: u.k.stuck}, nil
}

// A fleet is a hub and nodes whose messages arrive at once.
type fleet struct {
	t     *testing.T
	dir   string
	hub   *Hub
	now   time.Time
	nodes map[string]*testNode
	lines []string
}

type testNode struct {
	*Node
	k    *fakeKernel
	file string
	cut  bool
	logs []string
}

var testSpec = Spec{ID: "one", Name: "fix", Package: strings.Repeat("ab", 32), Canary: "uid=7", Policy: "all", Trial: time.Hour, Lease: roll.DefaultTimes.Lease}

func testPlan(t *testing.T, waves string) roll.Plan {
	t.Helper()
	w, err := roll.ParseWaves(waves)
	if err != nil {
		t.Fatal(err)
	}
	times := roll.DefaultTimes
	times.Canary, times.Settle, times.Dead, times.Slow = 2*time.Second, 3*time.Second, 6*time.Second, 20*time.Second
	return roll.Plan{Waves: w, Times: times, MaxUnavailable: 1}
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), now: time.Now(), nodes: map[string]*testNode{}}
	f.open()
	for _, name := range names {
		f.join(name)
	}
	return f
}

func (f *fleet) open() {
	f.t.Helper()
	h, err := OpenHub(filepath.Join(f.dir, "hub"), func() time.Time { return f.now }, func(name, text string) {
		f.lines = append(f.lines, name+": "+text)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.hub = h
}

func (f *fleet) join(name string) {
	f.t.Helper()
	n := &testNode{k: &fakeKernel{boot: "1", refuse: map[string]error{}}, file: filepath.Join(f.dir, name+".package")}
	if err := os.WriteFile(n.file, []byte("package"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.nodes[name] = n
	f.start(name)
}

// start starts a node's agent, again after it ended.
func (f *fleet) start(name string) {
	f.t.Helper()
	n := f.nodes[name]
	send := func(r Report) {
		if n.cut {
			return
		}
		if o, ok := f.hub.Report(name, f.carry(r)); ok {
			n.Take(o)
		}
	}
	fetch := func(context.Context, string) (string, error) { return n.file, nil }
	node, err := NewNode(filepath.Join(f.dir, name), n.k, send, fetch, func(format string, args ...any) {
		n.logs = append(n.logs, fmt.Sprintf(format, args...))
	})
	if err != nil {
		f.t.Fatal(err)
	}
	node.spawn = func(do func()) { do() }
	n.Node = node
	n.recall(f.t.Context())
}

// carry passes a message through its format.
func (f *fleet) carry(r Report) (out Report) {
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fleet) begin(s Spec, waves string) {
	f.t.Helper()
	var names []string
	for name := range f.nodes {
		names = append(names, name)
	}
	if err := f.hub.Begin("user:7:test", s, testPlan(f.t, waves), names, nil); err != nil {
		f.t.Fatal(err)
	}
}

// step lets a quarter of a second pass.
func (f *fleet) step() {
	f.now = f.now.Add(reportEvery)
	for name, n := range f.nodes {
		n.k.now += reportEvery
		if !n.cut {
			for _, o := range f.hub.Unheard(name) {
				n.Take(o)
			}
		}
		for len(n.orders) > 0 {
			n.take(f.t.Context(), <-n.orders)
		}
		if n.k.state == Drains {
			n.k.state = Absent
		}
		n.tick()
	}
	f.hub.Tick()
}

// run lets time pass until done returns true, for at most three minutes.
func (f *fleet) run(what string, done func() bool) {
	f.t.Helper()
	for range 720 {
		f.step()
		if done() {
			return
		}
	}
	f.t.Fatalf("%s never came: %+v\n%s", what, f.status().Nodes, strings.Join(f.lines, "\n"))
}

func (f *fleet) status() Status {
	list, err := f.hub.List("fix")
	if err != nil {
		f.t.Fatal(err)
	}
	return list[0]
}

func (f *fleet) awaitState(state roll.State) {
	f.t.Helper()
	f.run(state.String(), func() bool { return f.status().State == state.String() })
}

// phases counts the nodes whose kernel does something.
func (f *fleet) count(is func(k *fakeKernel) bool) (n int) {
	for _, node := range f.nodes {
		if is(node.k) {
			n++
		}
	}
	return n
}

func committed(k *fakeKernel) bool { return k.state == Kept }

func TestRollReachesAllNodes(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	f.begin(testSpec, "1,all")
	f.run("the first wave", func() bool { return f.count(func(k *fakeKernel) bool { return k.phase == roll.Full }) == 1 })
	if n := f.count(func(k *fakeKernel) bool { return k.state != Absent }); n != 1 {
		t.Errorf("%d nodes have loaded the update, and the wave has 1", n)
	}
	f.awaitState(roll.Done)
	f.run("the last commit", func() bool { return f.count(committed) == 3 })
	for name, n := range f.nodes {
		if n.k.did[0] != "stage package" || n.k.did[1] != "load" || n.k.did[2] != "canary" {
			t.Errorf("%s did %v", name, n.k.did[:3])
		}
	}
	f.join("later")
	f.run("the node that joined later", func() bool { return f.count(committed) == 4 })
	log := ""
	for _, e := range f.status().Log {
		log += e.Text + "\n"
	}
	for _, want := range []string{"begun for 3 nodes", "wave 1 of 2 begins", "a: canary", "wave 2 of 2 begins", "c: committed", "confirming", "done"} {
		if !strings.Contains(log, want+"\n") {
			t.Errorf("the log does not have %q:\n%s", want, log)
		}
	}
}

// A hub that was killed continues with what it stored, and its clock does not go back.
func TestRollSurvivesTheHub(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "1,all")
	f.run("the canary", func() bool { return f.nodes["a"].k.phase == roll.Canary })
	before := f.nodes["a"].rolls["fix"].node.Report(0).Heard
	f.now = f.now.Add(time.Second)
	f.open()
	if now := f.hub.clock(f.hub.rolls["fix"]); now < before {
		t.Errorf("the clock of the roll went back from %v to %v", before, now)
	}
	f.awaitState(roll.Done)
	f.run("the last commit", func() bool { return f.count(committed) == 2 })
}

// An agent that was killed leaves no policy behind that lasts longer than its lease, and
// begins without one.
func TestRollSurvivesTheAgent(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "1,all")
	f.run("the canary", func() bool { return f.nodes["a"].k.phase == roll.Canary })
	k := f.nodes["a"].k
	if left := k.until - k.now; left <= 0 || left > testSpec.Lease {
		t.Errorf("the kernel's policy ends in %v, a lease is %v", left, testSpec.Lease)
	}
	f.start("a")
	if k.phase != roll.Loaded {
		t.Errorf("after a restart of the agent the policy is that of %v", k.phase)
	}
	f.awaitState(roll.Done)
	// It commits, and is killed before it stored that.
	f.nodes["a"].k.did = nil
	l := f.nodes["a"].rolls["fix"]
	s := l.saved
	s.Phase = roll.Full
	if err := l.store(s); err != nil {
		t.Fatal(err)
	}
	f.start("a")
	if l := f.nodes["a"].rolls["fix"]; l.node.Phase != roll.Committed || strings.Join(k.did, " ") != "commit" {
		t.Errorf("%v, did %v", l.node.Phase, k.did)
	}
}

// A node that boots during its trial is named, the roll stops, and the package is
// blocked there.
func TestRollStopsAtABoot(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	f.begin(testSpec, "1,all")
	f.run("the first wave", func() bool { return f.nodes["a"].k.phase == roll.Full })
	k := f.nodes["a"].k
	k.boot, k.now, k.state, k.phase = "2", 0, Absent, 0
	f.start("a")
	f.awaitState(roll.Stopped)
	// By then the package's bytes are gone.
	if !strings.HasPrefix(f.status().Why, "a: ") || k.failed == "" || k.content != "content of fix" {
		t.Errorf("%q, blocked %q of %q", f.status().Why, k.failed, k.content)
	}
	if n := f.count(func(k *fakeKernel) bool { return k.state != Absent }); n != 0 {
		t.Errorf("%d nodes have the update", n)
	}
	f.lines = nil
	for range 100 {
		f.step()
	}
	if f.nodes["a"].rolls["fix"].node.Phase >= roll.Loaded && f.nodes["a"].rolls["fix"].node.Phase != roll.Reverted {
		t.Errorf("after the boot: %v", f.nodes["a"].rolls["fix"].node.Phase)
	}
}

// What names the package is on the disk before its module is loaded, which may end the machine.
func TestRollIsStoredBeforeTheLoad(t *testing.T) {
	f := newFleet(t, "a")
	var s saved
	f.nodes["a"].k.loads = func() {
		text, err := os.ReadFile(filepath.Join(f.dir, "a", "fix"+extension))
		if err := errors.Join(err, json.Unmarshal(text, &s)); err != nil {
			t.Error(err)
		}
	}
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	if s.Phase != roll.Loaded || s.Content != "content of fix" {
		t.Errorf("while the module is loaded, the disk has %v of %q", s.Phase, s.Content)
	}
}

// A package that cannot be blocked on its node when it fails is blocked once that works,
// also by an agent that starts later.
func TestRollHarmIsOwed(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "1,all")
	f.run("the first wave", func() bool { return f.nodes["a"].k.phase == roll.Full })
	k := f.nodes["a"].k
	k.refuse["fail"] = errors.New("no space left on device")
	k.boot, k.now, k.state, k.phase = "2", 0, Absent, 0
	f.start("a")
	f.awaitState(roll.Stopped)
	for range 8 {
		f.step()
	}
	told := strings.Count(strings.Join(f.nodes["a"].logs, "\n"), "is not blocked on this node yet: no space left on device")
	if k.failed != "" || told != 1 {
		t.Errorf("blocked %q, told %d times: %q", k.failed, told, f.nodes["a"].logs)
	}
	f.start("a")
	delete(k.refuse, "fail")
	f.run("the block", func() bool { return k.failed != "" })
	if !strings.Contains(f.status().Why, k.failed) || k.content != "content of fix" {
		t.Errorf("blocked %q of %q", k.failed, k.content)
	}
	k.failed, k.did = "", nil
	f.step()
	f.start("a")
	for range 8 {
		f.step()
	}
	if k.failed != "" {
		t.Errorf("it is blocked again: %q", k.failed)
	}
}

// What the kernel reverts stops the roll everywhere, and the module is unloaded when
// nobody is inside.
func TestRollStopsAtHarm(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "all")
	f.run("the trial", func() bool { return f.count(func(k *fakeKernel) bool { return k.phase == roll.Full }) == 2 })
	a, b := f.nodes["a"].k, f.nodes["b"].k
	a.state, a.end = Drains, "WARN at fs/pipe.c:1"
	f.awaitState(roll.Stopped)
	f.run("the end", func() bool { return b.state == Absent && b.did[len(b.did)-1] == "unload" })
	if why := f.status().Why; why != "a: WARN at fs/pipe.c:1" || a.failed != "WARN at fs/pipe.c:1" || b.failed != "" {
		t.Errorf("%q, blocked on a %q, on b %q", why, a.failed, b.failed)
	}
}

// A package that harmed a node reaches no other: not by another roll, not after its roll
// was forgotten, not after a restart of the hub. One that was built anew does.
func TestRollHarmIsKept(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "1,all")
	f.run("the first wave", func() bool { return f.nodes["a"].k.phase == roll.Full })
	f.nodes["a"].k.state, f.nodes["a"].k.end = Drains, "WARN at fs/pipe.c:1"
	f.awaitState(roll.Stopped)
	again := func(when string, s Spec, want string) {
		t.Helper()
		err := f.hub.Begin("user:7:test", s, testPlan(t, "all"), []string{"b"}, nil)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: %s", when, got)
		}
	}
	const harm = "harmed a node, and the hub gives it to no other (a: WARN at fs/pipe.c:1)"
	again("another roll", testSpec, harm)
	f.open()
	again("after a restart", testSpec, harm)
	other := testSpec
	other.Name = "renamed"
	again("by another name", other, harm)
	if err := f.hub.Act("user:7:test", "fix", ActionForget); err != nil {
		t.Fatal(err)
	}
	again("forgotten", testSpec, harm)
	f.open()
	again("forgotten, after a restart", testSpec, harm)
	other.Package = strings.Repeat("7", digestHex)
	again("built anew", other, "<nil>")
	if err := f.hub.Act("user:7:test", "renamed", ActionStop); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", "null"} {
		f.damageHarmed(text)
		again("a damaged list", other, "the list of packages that harmed a node, is damaged")
	}
}

// A package that harmed a node is known by its contents: other signatures do not make it
// another one, whether its roll is still known or was forgotten.
func TestRollHarmIsOfContents(t *testing.T) {
	f := newFleet(t, "a", "b")
	begin := func(digit string, functions ...string) error {
		s := testSpec
		s.Package = strings.Repeat(digit, digestHex)
		return f.hub.Begin("user:7:test", s, testPlan(t, "1,all"), []string{"a", "b"}, changes(functions...))
	}
	if err := begin("1", "arp_ioctl"); err != nil {
		t.Fatal(err)
	}
	f.run("the first wave", func() bool { return f.nodes["a"].k.phase == roll.Full })
	f.nodes["a"].k.state, f.nodes["a"].k.end = Drains, "WARN at fs/pipe.c:1"
	f.awaitState(roll.Stopped)
	for _, when := range []string{"known", "restarted", "forgotten", "forgotten and restarted"} {
		switch when {
		case "forgotten":
			if err := f.hub.Act("user:7:test", "fix", ActionForget); err != nil {
				t.Fatal(err)
			}
		case "restarted", "forgotten and restarted":
			f.open()
		}
		if err := begin("2", "arp_ioctl"); err == nil || !strings.Contains(err.Error(), "harmed a node, and the hub gives it to no other (a: WARN at fs/pipe.c:1)") {
			t.Errorf("%s: %v", when, err)
		}
	}
	if err := begin("2", "arp_req_set"); err != nil {
		t.Errorf("other contents: %v", err)
	}
}

// The list of harm is stored before the record that says the same is replaced or removed.
func TestRollHarmIsStoredFirst(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.hub.rolls["fix"].Roll.Harmed = "a: it booted"
	f.hub.rolls["fix"].Roll.Stop("harm")
	file := f.hub.harmed.file
	f.hub.harmed.file = filepath.Join(f.dir, "missing", "harmed")
	other := testSpec
	other.Package = strings.Repeat("7", digestHex)
	replace := f.hub.Begin("user:7:test", other, testPlan(t, "all"), []string{"a"}, nil)
	forget := f.hub.Act("user:7:test", "fix", ActionForget)
	for what, err := range map[string]error{"replaced": replace, "forgotten": forget} {
		if err == nil || !strings.Contains(err.Error(), "cannot be stored") || f.hub.rolls["fix"].Spec.Package != testSpec.Package {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.hub.harmed.file = file
	for i := range harmedMax {
		f.hub.harmed.packages[fmt.Sprintf("%064x", i)] = "x"
	}
	if err := f.hub.Act("user:7:test", "fix", ActionForget); err == nil || !strings.Contains(err.Error(), "has room for 4096") {
		t.Error(err)
	}
	clear(f.hub.harmed.packages)
	if err := f.hub.Begin("user:7:test", other, testPlan(t, "all"), []string{"a"}, nil); err != nil || f.hub.harmed.packages[testSpec.Package] != "a: it booted" {
		t.Errorf("%v, %q", err, f.hub.harmed.packages)
	}
}

// The list of harm is full with harmedMax packages.
func TestRoomForHarm(t *testing.T) {
	l := openHarmed(t.TempDir())
	for i := range harmedMax - 1 {
		l.packages[fmt.Sprintf("%064x", i)] = "x"
	}
	r := &record{Spec: testSpec, Roll: &roll.Hub{Harmed: "a: it booted"}}
	if err := l.keep(r); err != nil || len(l.packages) != harmedMax {
		t.Errorf("the last one: %v, %d packages", err, len(l.packages))
	}
	r.Spec.Package = strings.Repeat("7", digestHex)
	if err := l.keep(r); err == nil || len(l.packages) != harmedMax {
		t.Errorf("one more: %v, %d packages", err, len(l.packages))
	}
}

// damageHarmed replaces the hub's list of harm, and opens the hub again.
func (f *fleet) damageHarmed(text string) {
	if err := os.WriteFile(f.hub.harmed.file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.open()
}

// A node that is cut off ends its lease by itself.
func TestRollLeaseEnds(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "all")
	f.run("the trial", func() bool { return f.count(func(k *fakeKernel) bool { return k.phase == roll.Full }) == 2 })
	f.nodes["b"].cut = true
	for range int((roll.DefaultTimes.Lease + roll.DefaultTimes.Fresh) / reportEvery) {
		f.step()
	}
	if n := f.count(func(k *fakeKernel) bool { return k.phase == roll.Loaded }); n != 2 {
		t.Errorf("%d of 2 nodes ended the trial", n)
	}
	f.awaitState(roll.Stopped)
	if why := f.status().Why; !strings.HasPrefix(why, "b: it was silent") {
		t.Error(why)
	}
}

// Another roll of an update ends the one before on the node first.
func TestRollReplacesAnother(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the trial", func() bool { return f.nodes["a"].k.phase == roll.Full })
	other := testSpec
	other.ID, other.Package = "two", strings.Repeat("cd", 32)
	if err := f.hub.Begin("user:7:test", other, testPlan(t, "all"), []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "--stop fix") {
		t.Errorf("a second roll of an update began: %v", err)
	}
	if err := f.hub.Act("user:7:test", "fix", ActionForget); err == nil {
		t.Error("a roll that runs was forgotten")
	}
	if err := f.hub.Act("user:7:test", "fix", ActionStop); err != nil {
		t.Fatal(err)
	}
	k := f.nodes["a"].k
	k.did = nil
	if err := f.hub.Begin("user:7:test", other, testPlan(t, "all"), []string{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	f.awaitState(roll.Done)
	if did := strings.Join(k.did, " "); !strings.Contains(did, "node revert unload stage package load canary") {
		t.Errorf("did %s", did)
	}
}

// A node that refuses says why, and one whose agent cannot fetch tries again.
func TestRollRefused(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.nodes["b"].k.refuse["stage package"] = errors.New("0 of the 2 signatures that are needed count")
	file := f.nodes["a"].file
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	f.begin(testSpec, "all")
	for range 20 {
		f.step()
	}
	if l := f.nodes["a"].rolls["fix"]; l.node.Phase != roll.None {
		t.Errorf("%v without a package", l.node.Phase)
	}
	if err := os.WriteFile(file, []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.awaitState(roll.Done)
	for _, n := range f.status().Nodes {
		if n.Name == "b" && n.Failed != "it refused: 0 of the 2 signatures that are needed count" {
			t.Errorf("%+v", n)
		}
	}
}

// A roll that cannot be stored gives no orders, and goes on when it can be stored again.
func TestRollThatCannotBeStored(t *testing.T) {
	f := newFleet(t, "a", "b")
	f.begin(testSpec, "1,all")
	f.run("the canary", func() bool { return f.nodes["a"].k.phase == roll.Canary })
	dir := filepath.Join(f.dir, "hub")
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	f.run("the hold", func() bool { return strings.HasPrefix(f.status().Why, "held: it cannot be stored") })
	for range int(testSpec.Lease / reportEvery) {
		f.step()
	}
	if n := linesOf(f.lines, "fix: the roll is held, because it cannot be stored: "); n != 1 {
		t.Errorf("%d of these lines: %q", n, f.lines)
	}
	if p := f.nodes["a"].k.phase; p != roll.Loaded {
		t.Errorf("a node is in %v by an order that is not stored", p)
	}
	if err := f.hub.Act("user:7:test", "fix", ActionPause); err == nil || !strings.Contains(err.Error(), "cannot be stored") {
		t.Errorf("pause: %v", err)
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	f.run("the resume", func() bool { return f.hub.Act("user:7:test", "fix", ActionResume) == nil })
	f.awaitState(roll.Done)
}

// Records and messages that are damaged or too long are refused by name.
func TestRollDamaged(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.step()
	for what, change := range map[string]func(s *Spec){
		"no valid id":               func(s *Spec) { s.ID = "" },
		"not the name of an update": func(s *Spec) { s.Name = "../fix" },
		"not named by its digest":   func(s *Spec) { s.Package = strings.Repeat("G", 64) },
		"a trial of":                func(s *Spec) { s.Trial = trialMax + 1 },
		"a lease of":                func(s *Spec) { s.Lease = 0 },
		"a health limit":            func(s *Spec) { s.Health.Errors = 1001 },
		"is not a term":             func(s *Spec) { s.Canary = "everybody" },
		"a policy of":               func(s *Spec) { s.Policy = strings.Repeat("x", policyMax+1) },
	} {
		s := testSpec
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r := Report{ID: "one", Report: roll.Report{Boot: "1", Stamp: time.Hour, Bad: strings.Repeat("\x1b", 9999), Phase: 200, Inside: make([]string, 99)}}
	f.hub.Report("a", r)
	if m := f.hub.rolls["fix"].Roll.Nodes["a"].Last; m.Phase != roll.Reverted || m.Bad != strings.Repeat("?", textMax) || len(m.Inside) != insideMax {
		t.Errorf("%v, %d bytes, %d tasks", m.Phase, len(m.Bad), len(m.Inside))
	}
	if _, ok := f.hub.Report("a", Report{ID: "another"}); ok {
		t.Error("a report about an unknown roll was answered")
	}
	if err := os.WriteFile(filepath.Join(f.dir, "a", "fix.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.start("a")
	if logs := strings.Join(f.nodes["a"].logs, "\n"); !strings.Contains(logs, "cannot be read") {
		t.Error(logs)
	}
}

// A damaged record holds its own roll alone, until it is restored or forgotten.
func TestRollRecordDamaged(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	other := testSpec
	other.ID, other.Name = "two", "other"
	f.begin(other, "all")
	f.step()
	path := filepath.Join(f.dir, "hub", "fix.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"half":         string(whole[:len(whole)/2]),
		"empty":        "",
		"another":      strings.Replace(string(whole), `"name":"fix"`, `"name":"fox"`, 1),
		"no node":      strings.Replace(string(whole), `"Nodes":{`, `"Nodes":null,"Was":{`, 1),
		"null node":    strings.Replace(string(whole), `"Nodes":{`, `"Nodes":{"b":null,`, 1),
		"no wave":      strings.Replace(string(whole), `"Waves":[`, `"Waves":[],"Was":[`, 1),
		"begun":        strings.Replace(string(whole), `"Begun":0`, `"Begun":9`, 1),
		"begun before": strings.Replace(string(whole), `"Begun":0`, `"Begun":-1`, 1),
		"state":        strings.Replace(string(whole), `"State":0`, `"State":200`, 1),
		"clock":        strings.Replace(string(whole), `"ceiling":`, `"ceiling":-`, 1),
	} {
		if text == string(whole) {
			t.Fatalf("%s: the record was not changed: %s", what, whole)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.open()
		f.hub.Tick()
		list, err := f.hub.List("fix")
		if err != nil || len(list) != 1 || list[0].State != Damaged || !strings.Contains(list[0].Why, "--forget fix") {
			t.Fatalf("%s: %+v, %v", what, list, err)
		}
		if all, _ := f.hub.List(""); len(all) != 2 || all[1].State == Damaged {
			t.Errorf("%s: the other roll: %+v", what, all)
		}
	}
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a roll over a damaged record: %v", err)
	}
	for _, action := range []string{ActionPause, ActionResume, ActionStop} {
		if err := f.hub.Act("user:7:test", "fix", action); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s of a damaged record: %v", action, err)
		}
	}
	if o, ok := f.hub.Report("a", Report{ID: "one", Report: roll.Report{Boot: "1", Stamp: time.Hour}}); ok {
		t.Errorf("an order by a damaged record: %+v", o)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	if list, err := f.hub.List("fix"); err != nil || list[0].State != roll.Running.String() {
		t.Errorf("the restored record: %+v, %v", list, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	if err := f.hub.Act("user:7:test", "fix", ActionForget); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the forgotten record: %v", err)
	}
	f.begin(testSpec, "all")
}
