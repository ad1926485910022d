// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/grid/rolls"
	"skep/internal/uapi"
)

// A steppedKernel does what a RollNode asks of a kernel, and fails at one step.
type steppedKernel struct {
	fakeEngine
	build   string
	did     []string
	fails   string
	old     bool // the module is loaded already
	applied uapi.DynamosApply
	policy  uapi.DynamosPolicy
	events  []uapi.DynamosEvent
}

func (k *steppedKernel) Events() ([]uapi.DynamosEvent, error) { return k.events, k.step("events") }

func (k *steppedKernel) step(name string) error {
	k.did = append(k.did, name)
	if k.fails == name {
		return errFault
	}
	return nil
}

func (k *steppedKernel) open() (RollKernel, error)      { return k, k.step("open") }
func (k *steppedKernel) Close() error                   { return k.step("close") }
func (k *steppedKernel) HasModule(string) (bool, error) { return true, nil }
func (k *steppedKernel) BuildID() (string, error)       { return k.build, k.step("build-id") }

func (k *steppedKernel) Info(n uint32) (uapi.DynamosInfo, error) {
	if n == 0 {
		if err := k.step("info"); err != nil {
			return uapi.DynamosInfo{}, err
		}
	}
	return k.fakeEngine.Info(n)
}

func (k *steppedKernel) Count(name string, function, version uint32) (uapi.DynamosCount, error) {
	if err := k.step("count"); err != nil {
		return uapi.DynamosCount{}, err
	}
	return k.fakeEngine.Count(name, function, version)
}

func (k *steppedKernel) Load(name string, module []byte) (bool, error) {
	if err := k.step("load " + string(module)); err != nil {
		return false, err
	}
	k.fakeEngine = *oneUpdate()
	k.infos[0].State = uapi.DynamosLoaded
	return !k.old, nil
}

func (k *steppedKernel) Apply(_ context.Context, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	if err := k.step("apply " + name); err != nil {
		return uapi.DynamosInfo{}, err
	}
	k.applied, k.infos[0].State = *a, uapi.DynamosTrial
	return k.infos[0], nil
}

func (k *steppedKernel) SetPolicy(name string, p uapi.DynamosPolicy) error {
	k.policy = p
	return k.step("policy " + name)
}

func (k *steppedKernel) Commit(name string) error {
	k.infos[0].State = uapi.DynamosCommitted
	return k.step("commit " + name)
}

func (k *steppedKernel) CommitFor(name string, p uapi.DynamosPolicy) error {
	k.infos[0].State, k.policy = uapi.DynamosCommitted, p
	return k.step("commit " + name + " for")
}

func (k *steppedKernel) TakesRolls() error                { return k.step("takes rolls") }
func (k *steppedKernel) Revert(name string, _ bool) error { return k.step("revert " + name) }
func (k *steppedKernel) Remove(name string) error         { return k.step("remove " + name) }

// rollSigner is the one operator of the node.
func rollSigner(t *testing.T) *trust.Signer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if _, err := trust.CreateKey(file, "alice", nil); err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signedBy(s *trust.Signer, text []byte) []byte {
	doc := &trust.Signed{Text: text}
	doc.Sign(s)
	return doc.Encode()
}

// A rollCase is a node, its kernel, and an update that is rolled out to it.
type rollCase struct {
	t        *testing.T
	node     *RollNode
	kernel   *steppedKernel
	signer   *trust.Signer
	pack     *pack.Package
	spec     rolls.Spec
	widest   string // the signed policy
	exist    string // the signed reason why existing objects do no harm
	bytes    []byte // of the package's file
	sequence uint64 // that is signed
	reads    int
}

// newRollCase returns a node that trusts one key, which signed the package.
func newRollCase(t *testing.T) *rollCase {
	t.Helper()
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	c := &rollCase{t: t, kernel: &steppedKernel{build: keptBuildID}, signer: rollSigner(t), pack: fixPackage(), widest: "uid=1000", sequence: 7,
		spec: rolls.Spec{ID: "one", Name: "fix", Canary: "uid=1000 share=6553", Policy: "uid=1000", Trial: 10 * time.Minute}}
	c.node = &RollNode{Trust: &trust.Store{Dir: filepath.Join(dir, "keys")}, Keep: &Keep{Dir: filepath.Join(dir, "kept"), Run: filepath.Join(dir, "run")},
		BootID: "boot", Now: func() time.Time { return now }, IsRoot: true, Root: filepath.Join(dir, "root"), Open: c.kernel.open,
		Build: func() (string, error) { return c.kernel.build, nil }}
	keys := trust.Keys{Fleet: "lab", Version: 1, Threshold: 1, Signed: now.Add(-time.Hour), Expires: now.Add(2 * time.Hour), Keys: []trust.Key{c.signer.Key}, Floors: map[string]uint64{}}
	if err := c.node.Trust.Change(func(s trust.State) (trust.State, error) {
		s, _, err := s.Pin(signedBy(c.signer, keys.Encode()), now, false)
		return s, err
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// open signs the package, and returns its update.
func (c *rollCase) open() *rolledUpdate {
	c.t.Helper()
	content, err := c.pack.Content()
	if err != nil {
		c.t.Fatal(err)
	}
	now := c.node.Now()
	widest, err := trust.ParsePolicy(c.widest)
	if err != nil {
		c.t.Fatal(err)
	}
	statement := trust.Package{Line: "fix", Sequence: c.sequence, Name: c.pack.Name, Class: c.pack.Class, Content: content,
		Signed: now.Add(-time.Minute), Expires: now.Add(time.Hour), Trial: 10 * time.Minute, Widest: widest, ObjectsExist: c.exist}
	c.pack.Signatures = signedBy(c.signer, statement.Encode())
	var file bytes.Buffer
	if err := pack.Write(&file, c.pack); err != nil {
		c.t.Fatal(err)
	}
	c.bytes = file.Bytes()
	if c.spec.Package == "" {
		c.spec.Package = digestOf(file.Bytes())
	}
	return c.node.Rolls().Open(c.spec, func(string) ([]byte, error) { c.reads++; return file.Bytes(), nil }).(*rolledUpdate)
}

// rollSteps are those of a roll, and what each asks of the kernel.
var rollSteps = []struct {
	name string
	do   func(u *rolledUpdate) error
	asks []string
}{
	{"stage", (*rolledUpdate).Stage, []string{"open", "takes rolls", "close", "open", "build-id", "close"}},
	{"load", (*rolledUpdate).Load, []string{"open", "build-id", "close", "open", "info", "load \x7fELF and more", "apply fix", "close"}},
	{"canary", func(u *rolledUpdate) error { return u.Select(roll.Canary, time.Hour) }, []string{"open", "policy fix", "close"}},
	{"full", func(u *rolledUpdate) error { return u.Select(roll.Full, time.Hour) }, []string{"open", "policy fix", "close"}},
	{"look", func(u *rolledUpdate) error { _, err := u.Look(); return err }, []string{"open", "info", "count", "count", "close"}},
	{"commit", (*rolledUpdate).Commit, []string{"open", "commit fix for", "close"}},
	{"revert", (*rolledUpdate).Revert, []string{"open", "info", "revert fix", "close"}},
	{"unload", (*rolledUpdate).Unload, []string{"open", "info", "remove fix", "close"}},
	{"fail", failRolled, nil},
}

func failRolled(u *rolledUpdate) error {
	content, err := u.Content()
	if err != nil {
		return err
	}
	return u.Fail(content, "a test")
}

// Each step asks the kernel in its order, and stops where one question fails; the kernel is
// closed whatever happens.
func TestStepsOfARollThatFail(t *testing.T) {
	for n, step := range rollSteps {
		for at := -1; at < len(step.asks); at++ {
			c := newRollCase(t)
			u := c.open()
			for _, before := range rollSteps[:n] {
				if err := before.do(u); err != nil {
					t.Fatalf("%s: %v", before.name, err)
				}
			}
			c.kernel.did = nil
			want := step.asks
			if at >= 0 {
				if c.kernel.fails = step.asks[at]; slices.Index(step.asks, c.kernel.fails) < at {
					continue // the first one fails
				}
				want = step.asks[:at+1]
				if c.kernel.fails == "apply fix" {
					want = append(slices.Clone(want), "remove fix")
				}
				if c.kernel.fails != "open" && c.kernel.fails != "close" {
					want = append(slices.Clone(want), "close")
				}
			}
			err := step.do(u)
			if (at < 0) != (err == nil) || at >= 0 && !errors.Is(err, errFault) || !slices.Equal(c.kernel.did, want) {
				t.Errorf("%s with %q failing: %q, want %q: %v", step.name, c.kernel.fails, c.kernel.did, want, err)
			}
		}
	}
}

// What this node refuses reaches no kernel.
func TestRollsThatANodeRefuses(t *testing.T) {
	for what, test := range map[string]struct {
		change func(c *rollCase)
		want   string
		name   string // of a refusal by the keys
	}{
		"an agent of a user":        {func(c *rollCase) { c.node.IsRoot = false }, "the agent of this node does not run as root", ""},
		"a node without keys":       {func(c *rollCase) { c.node.Trust.Dir += "x" }, "no keys of operators", trust.Unpinned},
		"another package":           {func(c *rollCase) { c.spec.Package = strings.Repeat("0", 64) }, "is not the one that the roll names", ""},
		"a package of another name": {func(c *rollCase) { c.spec.Name = "fox" }, "the package is fix, and the roll is of fox", ""},
		"class together":            {func(c *rollCase) { c.pack.Class, c.pack.Proposed = "together", "together" }, "no lease can bound its trial: apply fix on each node", ""},
		"another kernel":            {func(c *rollCase) { c.kernel.build = strings.Repeat("f", 40) }, "the package is not for this kernel", ""},
		"a wider policy":            {func(c *rollCase) { c.spec.Policy = "all" }, "the policy is wider than the signed one", trust.Wider},
		"a wider first policy":      {func(c *rollCase) { c.spec.Canary = "all" }, "the policy is wider than the signed one", trust.Wider},
		"a policy that is none":     {func(c *rollCase) { c.spec.Canary = "uid=" }, "", ""},
		"a longer trial":            {func(c *rollCase) { c.spec.Trial++ }, "may last 10m0s at most", trust.Unlimited},
		"no trial":                  {func(c *rollCase) { c.spec.Trial = 0 }, "may last", trust.Unlimited},
		"what objects lack":         {func(c *rollCase) { c.pack.State, c.pack.Kernels[0].Relies = "none is used", []string{"f relies on x"} }, "does not say why they do no harm", trust.Existing},
		"an expired statement": {func(c *rollCase) {
			then := c.node.Now().Add(30 * time.Minute)
			c.node.Now = func() time.Time { return then.Add(time.Hour) }
		}, "", trust.Expired},
		"an unsigned module": {func(c *rollCase) {
			file := filepath.Join(c.node.Root, "sys/kernel/security/lockdown")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("none [integrity]"), 0o644)); err != nil {
				c.t.Fatal(err)
			}
		}, "that of fix is not signed", ""},
	} {
		c := newRollCase(t)
		if what != "an expired statement" {
			test.change(c)
		}
		u := c.open()
		if what == "an expired statement" {
			test.change(c)
		}
		err := u.Stage()
		if err == nil || !strings.Contains(err.Error(), test.want) || trust.Name(err) != test.name {
			t.Errorf("%s: %q: %v", what, trust.Name(err), err)
		}
		if _, err := c.node.Keep.Remembered("fix"); err == nil {
			t.Errorf("%s: it is stored", what)
		}
	}
}

// A roll takes the reason from what operators signed, for the kernel and for the next boot.
func TestRollWithObjectsThatExist(t *testing.T) {
	c := newRollCase(t)
	if err := os.Mkdir(c.node.Keep.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.pack, c.exist = relyingPackage(""), "no queue is in use"
	u := c.open()
	if err := errors.Join(u.Stage(), u.Load(), u.Commit()); err != nil {
		t.Fatal(err)
	}
	list, err := c.node.Keep.List()
	if err != nil || len(list) != 1 || list[0].ObjectsExist != c.exist || c.kernel.applied.Flags != uapi.DynamosObjectsExist {
		t.Errorf("flags %d, kept %+v, %v", c.kernel.applied.Flags, list, err)
	}
}

// What is loaded was approved at that time, and fits what is loaded already.
func TestLoadingARoll(t *testing.T) {
	for what, test := range map[string]struct {
		change func(c *rollCase, u *rolledUpdate)
		want   string
	}{
		"a failed package": {func(c *rollCase, u *rolledUpdate) {
			if err := failRolled(u); err != nil {
				c.t.Fatal(err)
			}
		}, "fix failed on this node (a test)"},
		"an update on trial": {func(c *rollCase, _ *rolledUpdate) { c.kernel.fakeEngine = *oneUpdate() }, "fix is trial already on this node: revert it first"},
		"a latency without end": {func(_ *rollCase, u *rolledUpdate) { u.spec.Health.Latency = math.MaxUint32 - Longer + 1 },
			"a latency limit of 4294967196% is out of range"},
		"an update that settles": {func(c *rollCase, _ *rolledUpdate) { c.node.Settles = func() bool { return true } }, "settling"},
	} {
		c := newRollCase(t)
		u := c.open()
		if err := u.Stage(); err != nil {
			t.Fatal(err)
		}
		test.change(c, u)
		c.kernel.did = nil
		err := u.Load()
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, roll.ErrLater) != (test.want == "settling") {
			t.Errorf("%s: %v", what, err)
		}
		if slices.ContainsFunc(c.kernel.did, func(s string) bool { return strings.HasPrefix(s, "load") }) {
			t.Errorf("%s was loaded", what)
		}
	}
}

// The trial begins for nobody, with the limits of the roll.
func TestLimitsOfARoll(t *testing.T) {
	for latency, want := range map[uint32]uint32{0: 0, 1: Longer + 1, math.MaxUint32 - Longer: math.MaxUint32} {
		c := newRollCase(t)
		c.node.Settles = func() bool { return false }
		c.spec.Health = rolls.Health{Least: 5, Errors: 7, Latency: latency, Stuck: 9 * time.Second}
		if u := c.open(); errors.Join(u.Stage(), u.Load()) != nil {
			t.Fatal("not loaded")
		}
		a := c.kernel.applied
		if a.Health != (uapi.DynamosHealth{Least: 5, Errors: 7, Latency: want, Stuck: 9e9}) || a.ConfirmMS != 600000 || a.EnterMS != 60000 {
			t.Errorf("applied with %+v, %d, %d", a.Health, a.ConfirmMS, a.EnterMS)
		}
		if a.Policy != (uapi.DynamosPolicy{}) {
			t.Errorf("the trial begins for somebody: %+v", a.Policy)
		}
	}
	c := newRollCase(t)
	c.kernel.old, c.kernel.fails = true, "apply fix"
	u := c.open()
	if err := errors.Join(u.Stage(), u.Load()); !errors.Is(err, errFault) || slices.Contains(c.kernel.did, "remove fix") {
		t.Errorf("a module that another one loaded is removed: %q, %v", c.kernel.did, err)
	}
}

// A call that does not return since the trial began is told, if the roll has a limit. Events of
// an earlier trial and of other updates are not.
func TestStuckCallsOfARoll(t *testing.T) {
	event := func(name string, cause uapi.DynamosCause, text string) (e uapi.DynamosEvent) {
		copy(e.Name[:], name)
		copy(e.Text[:], text)
		e.Cause, e.State = cause, uapi.DynamosTrial
		return e
	}
	applied, stuck := event("fix", uapi.DynamosAsked, "applied"), event("fix", uapi.DynamosStuck, "f: 1 stuck for more than 500 ms")
	policy, other := event("fix", uapi.DynamosAsked, "policy changed"), event("other", uapi.DynamosStuck, "g: 1 stuck")
	for _, test := range []struct {
		limit  time.Duration
		events []uapi.DynamosEvent
		want   string
	}{
		{time.Second, []uapi.DynamosEvent{applied, policy}, ""},
		{time.Second, []uapi.DynamosEvent{applied, stuck, policy, stuck}, "a call does not return: f: 1 stuck for more than 500 ms"},
		{time.Second, []uapi.DynamosEvent{stuck, applied}, ""},
		{time.Second, []uapi.DynamosEvent{applied, other}, ""},
		{0, []uapi.DynamosEvent{applied, stuck}, ""},
	} {
		c := newRollCase(t)
		c.spec.Health.Stuck = test.limit
		u := c.open()
		if err := errors.Join(u.Stage(), u.Load()); err != nil {
			t.Fatal(err)
		}
		c.kernel.infos[0].State, c.kernel.events = uapi.DynamosTrial, test.events
		if v, err := u.Look(); err != nil || v.Stuck != test.want {
			t.Errorf("%v, %d events: %q, want %q: %v", test.limit, len(test.events), v.Stuck, test.want, err)
		}
		if c.kernel.infos[0].State = uapi.DynamosCommitted; test.want == "" {
			continue
		}
		if v, err := u.Look(); err != nil || v.Stuck != "" {
			t.Errorf("committed: %q, %v", v.Stuck, err)
		}
	}
}

// A policy has its end in it, except for that of a committed update.
func TestPoliciesOfARoll(t *testing.T) {
	c := newRollCase(t)
	u := c.open()
	if err := errors.Join(u.Stage(), u.Load()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		phase roll.Phase
		until time.Duration
		rules uint32
		terms uint32
		ends  uint64
	}{{roll.Canary, 5 * time.Second, 1, uapi.DynamosUID | uapi.DynamosShare | uapi.DynamosWindow, 5e9}, {roll.Full, 6 * time.Second, 1, uapi.DynamosUID | uapi.DynamosWindow, 6e9},
		{roll.Loaded, time.Second, 0, 0, 0}, {roll.Reverted, time.Second, 0, 0, 0}} {
		err := u.Select(test.phase, test.until)
		p := c.kernel.policy
		if test.phase == roll.Reverted {
			if err != nil {
				t.Errorf("%v: %v", test.phase, err)
			}
		} else if err != nil || p.Rules != test.rules || p.Rule[0].Terms != test.terms || p.Rule[0].Until != test.ends || p.Otherwise != 0 {
			t.Errorf("%v: %d rules, terms %#x until %d: %v", test.phase, p.Rules, p.Rule[0].Terms, p.Rule[0].Until, err)
		}
	}
	u.spec.Policy = "all"
	if err := u.Select(roll.Full, time.Hour); trust.Name(err) != trust.Wider {
		t.Errorf("a wider policy after another phase: %v", err)
	}
	if err := u.Commit(); trust.Name(err) != trust.Wider {
		t.Errorf("a wider policy is committed: %v", err)
	}
	u.spec.Policy = "uid=1000"
	if err := u.Commit(); err != nil || c.kernel.policy.Rule[0].Terms != uapi.DynamosUID {
		t.Errorf("committed with terms %#x: %v", c.kernel.policy.Rule[0].Terms, err)
	}
	c.kernel.did = nil
	if err := u.Commit(); err != nil || !slices.Contains(c.kernel.did, "commit fix for") {
		t.Errorf("committed again: %q, %v", c.kernel.did, err)
	}
}

// A committed update is stored, or the roll learns why it is not.
func TestRollThatIsKept(t *testing.T) {
	c := newRollCase(t)
	if err := os.Mkdir(c.node.Keep.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	u := c.open()
	if err := errors.Join(u.Stage(), u.Load(), u.Commit()); err != nil {
		t.Fatal(err)
	}
	list, err := c.node.Keep.List()
	if err != nil || len(list) != 1 || list[0].Name != "fix" || list[0].BuildID != keptBuildID || list[0].Digest != c.spec.Package {
		t.Errorf("kept %+v, %v", list, err)
	}
	if err := u.Revert(); err != nil {
		t.Fatal(err)
	}
	if list, err := c.node.Keep.List(); err != nil || len(list) != 0 {
		t.Errorf("kept after its revert: %+v, %v", list, err)
	}
	if err := os.RemoveAll(c.node.Keep.Run); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err == nil || !strings.Contains(err.Error(), "fix is not restored after a boot: its package was not applied from a file") {
		t.Error(err)
	}
	c.kernel.fails = "build-id"
	if err := u.Commit(); !errors.Is(err, errFault) {
		t.Error(err)
	}
	if err := os.Chmod(c.node.Keep.Dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err == nil || !strings.Contains(err.Error(), "its owner alone") {
		t.Error(err)
	}
}

// Taking an update back does nothing where there is nothing to take back.
func TestRevertsOfARoll(t *testing.T) {
	for _, test := range []struct {
		state  uapi.DynamosState
		held   uapi.DynamosHeld
		absent bool
		revert bool
		remove bool
	}{{uapi.DynamosTrial, 0, false, true, true}, {uapi.DynamosEntering, 0, false, true, true}, {uapi.DynamosCommitted, uapi.DynamosIsHeld, false, true, false},
		{uapi.DynamosLoaded, 0, false, false, true}, {uapi.DynamosLeaving, 0, false, false, true}, {uapi.DynamosTrial, 0, true, false, false}} {
		c := newRollCase(t)
		if !test.absent {
			c.kernel.fakeEngine = *oneUpdate()
			c.kernel.infos[0].State, c.kernel.infos[0].Held = test.state, test.held
		}
		u := c.open()
		if err := u.Revert(); err != nil || slices.Contains(c.kernel.did, "revert fix") != test.revert {
			t.Errorf("%+v: %q, %v", test, c.kernel.did, err)
		}
		if err := u.Unload(); err != nil || slices.Contains(c.kernel.did, "remove fix") != test.remove {
			t.Errorf("%+v: %q, %v", test, c.kernel.did, err)
		}
	}
}

func TestLookingAtARoll(t *testing.T) {
	c := newRollCase(t)
	u := c.open()
	if v, err := u.Look(); err != nil || v.State != rolls.Absent || v.Health != (roll.Health{}) {
		t.Errorf("not loaded: %+v, %v", v, err)
	}
	c.kernel.fakeEngine = *oneUpdate()
	i := &c.kernel.infos[0]
	i.Functions = 2
	copy(i.End[:], "it failed")
	one := c.kernel.counts["fix"][0]
	one[0].Errors, one[1].Errors = 3, 5
	c.kernel.counts["fix"] = [][2]uapi.DynamosCount{one, one}
	for state, want := range map[uapi.DynamosState]rolls.State{uapi.DynamosLoaded: rolls.Absent, uapi.DynamosEntering: rolls.OnTrial, uapi.DynamosTrial: rolls.OnTrial, uapi.DynamosCommitted: rolls.Kept} {
		i.State = state
		v, err := u.Look()
		if err != nil || v.State != want || v.End != "it failed" || v.Inside != nil {
			t.Errorf("%v: %+v, %v", state, v, err)
		}
		if h := v.Health; h.OldCalls != 20 || h.NewCalls != 16 || h.OldErrors != 6 || h.NewErrors != 10 {
			t.Errorf("%+v", h)
		}
	}
	i.State = uapi.DynamosLeaving
	if v, err := u.Look(); err == nil {
		t.Errorf("nobody can be named, and nothing says so: %+v", v)
	}
	delete(c.kernel.counts, "fix") // it goes while it is looked at
	if v, err := u.Look(); err != nil || v.State != rolls.Absent || v.End != "" {
		t.Errorf("gone: %+v, %v", v, err)
	}
	if k := c.node.Rolls(); k.Boot() != "boot" || k.Clock() <= 0 || k.Clock() > k.Clock() {
		t.Errorf("boot %q, clock %v", k.Boot(), k.Clock())
	}
}

// The figures of an update are known without a roll, for as many functions as a node lists.
func TestAppliedWithoutARoll(t *testing.T) {
	c := newRollCase(t)
	c.kernel.fakeEngine = *oneUpdate()
	c.kernel.infos[0].State = uapi.DynamosCommitted
	list, err := c.node.Rolls().Applied()
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	whole, err := List(&c.kernel.fakeEngine, Names{})
	if err != nil {
		t.Fatal(err)
	}
	a, u := list[0], whole[0]
	if a.Name != u.Name || a.State != "committed" || a.Left != 0 || len(a.Functions) != len(u.Functions) || a.Functions[0].Symbol != u.Functions[0].Symbol || a.Functions[0].New.Calls != u.Functions[0].New.Calls || a.Functions[0].Old.Calls != u.Functions[0].Old.Calls {
		t.Errorf("%+v of %+v", a, u)
	}
	one := c.kernel.infos[0]
	for range roll.FiguresMax + 2 { // updates of a function each
		c.kernel.infos = append(c.kernel.infos, one)
	}
	if list, err = c.node.Rolls().Applied(); err != nil || len(list) != roll.FiguresMax+3 || list[roll.FiguresMax-1].Left != 0 || len(list[roll.FiguresMax].Functions) != 0 || list[roll.FiguresMax].Left != 1 {
		t.Errorf("%d updates, %v", len(list), err)
	}
	c.node.Open = func() (RollKernel, error) { return nil, errFault }
	if list, err = c.node.Rolls().Applied(); err == nil || list != nil {
		t.Errorf("without dynamos: %+v, %v", list, err)
	}
}

// Who is inside an update that leaves is named, and sought once in a while.
func TestTasksInsideARoll(t *testing.T) {
	c := newRollCase(t)
	c.kernel.fakeEngine = *oneUpdate()
	c.kernel.infos[0].State = uapi.DynamosLeaving
	proc := fakeProc(t, symbols, map[string]string{"20/task/20": "[<0>] pipe_read+0x1/0x2\n[<0>] ksys_read+0x45/0x100 [fix]\n",
		"21/task/21": "[<0>] pipe_read+0x1/0x2\n[<0>] ksys_read+0x45/0x100\n[<0>] dynamos_call_slow+0x8/0x90 [dynamos]\n[<0>] slot_0+0x60/0x90 [dynamos]\n"})
	if err := os.MkdirAll(c.node.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(proc, filepath.Join(c.node.Root, "proc")); err != nil {
		t.Fatal(err)
	}
	u := c.open()
	v, err := u.Look()
	if err != nil || v.State != rolls.Drains || !slices.Equal(v.Inside, []string{"20 cat in ksys_read"}) {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.RemoveAll(proc); err != nil {
		t.Fatal(err)
	}
	if again, err := u.Look(); err != nil || !slices.Equal(again.Inside, v.Inside) {
		t.Errorf("sought again at once: %+v, %v", again, err)
	}
	u.sought -= 2 * insideEvery
	if _, err := u.Look(); err == nil {
		t.Error("never sought again")
	}
}

// An agent that was started anew opens the package for any step, and says what is wrong.
func TestStepsOfARollAfterARestart(t *testing.T) {
	for _, step := range rollSteps {
		if step.name == "look" || step.name == "revert" || step.name == "unload" {
			continue // need no package
		}
		c := newRollCase(t)
		u := c.open()
		if err := errors.Join(u.Stage(), u.Load()); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(c.node.Keep.Run); err != nil {
			t.Fatal(err)
		}
		c.kernel.infos[0].State = uapi.DynamosTrial
		anew := c.node.Rolls().Open(c.spec, func(string) ([]byte, error) { return nil, errFault }).(*rolledUpdate)
		if err := step.do(anew); !errors.Is(err, errFault) {
			t.Errorf("%s without its package: %v", step.name, err)
		}
		anew = c.node.Rolls().Open(c.spec, func(string) ([]byte, error) { return []byte("no package"), nil }).(*rolledUpdate)
		if err := step.do(anew); err == nil || !strings.Contains(err.Error(), "is not the one that the roll names") {
			t.Errorf("%s with another package: %v", step.name, err)
		}
		if err := os.WriteFile(filepath.Join(c.node.Trust.Dir, "state.json"), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := step.do(u); err == nil {
			t.Errorf("%s with damaged keys", step.name)
		}
	}
	c := newRollCase(t)
	u := c.open()
	if err := u.Stage(); err != nil || c.reads != 1 {
		t.Errorf("read %d times: %v", c.reads, err)
	}
	if err := u.Load(); err != nil || c.reads != 1 {
		t.Errorf("a remembered package is read again: %d, %v", c.reads, err)
	}
}
