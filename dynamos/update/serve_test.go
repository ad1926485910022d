// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
	"skep/dynamos/update/trust"
	"skep/internal/uapi"
)

const otherBuildID = "fedcba9876543210fedcba9876543210fedcba98"

// What an author stated is stated again when the package is built for another kernel.
func TestPlanOfAPackage(t *testing.T) {
	arg := 2
	p := fixPackage()
	p.Class, p.Because, p.State = pack.Task, "a reason", "none is there"
	p.Kernels[0].Functions[0].Bare = true
	p.Kernels[0].Functions = append(p.Kernels[0].Functions, pack.Function{Symbol: pack.Symbol{Name: "enter"}},
		pack.Function{Symbol: pack.Symbol{Name: "plain"}, Size: 9}, pack.Function{Symbol: pack.Symbol{Name: "free"}, Size: 9, Object: &arg, Ends: true})
	p.Kernels[0].Layouts = []pack.Layout{{Name: "struct x", Because: "all are new"}}
	plan := PlanOf(p, "6.1.190-1", io.Discard)
	if plan.Name != "fix" || !bytes.Equal(plan.Patch, p.Patch) || !slices.Equal(plan.Kernels, []string{"6.1.190-1"}) || plan.Class != pack.Task || plan.Because != "a reason" || plan.State != "none is there" || plan.Layouts["struct x"] != "all are new" {
		t.Errorf("%+v", plan)
	}
	s := plan.States
	if len(s) != 3 || !s["arp_ioctl"].Bare || !s["enter"].Group || s["free"].Object != &arg || !s["free"].Ends || s["free"].Group {
		t.Errorf("%+v", s)
	}
	if plan = PlanOf(fixPackage(), "6.1.190-1", io.Discard); plan.Class != "" || plan.Because != "" {
		t.Errorf("the proposed class is stated: %+v", plan)
	}
	other := fixPackage()
	other.Class = pack.Object
	_, err := Rebuild(t.Context(), fixPackage(), "6.1.190-1", io.Discard, func(context.Context, Plan) (*pack.Package, error) { return other, nil })
	if err == nil || !strings.Contains(err.Error(), "asks for class object, and the package has class any") {
		t.Errorf("another class: %v", err)
	}
}

// A buildCase is a build service, and a node that has committed fix on another kernel.
type buildCase struct {
	*rollCase
	builds *Builds
	client *BuildClient
	taker  *Taker
	built  int
	fails  error
	said   []string
}

func newBuildCase(t *testing.T) *buildCase {
	t.Helper()
	c := &buildCase{rollCase: newRollCase(t)}
	c.widest, c.spec.Policy = "all", "all"
	u := c.open()
	if err := os.Mkdir(c.node.Keep.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.Stage(), u.Load(), u.Commit()); err != nil {
		t.Fatal(err)
	}
	c.builds = &Builds{Dir: t.TempDir(), Version: "1", Keys: c.node.Trust.Load, Now: c.node.Now, Log: t.Logf, Build: c.build}
	c.serve()
	c.taker = &Taker{Keep: c.node.Keep, Client: c.client, BuildID: otherBuildID, Kernel: "6.1.190-1", Approve: c.approve, Included: c.included,
		Says: func(format string, _ ...any) { c.said = append(c.said, format) }}
	return c
}

// serve starts the service, again with what it stored.
func (c *buildCase) serve() {
	c.t.Helper()
	if err := c.builds.Open(); err != nil {
		c.t.Fatal(err)
	}
	s := httptest.NewServer(c.builds.Handler())
	c.t.Cleanup(s.Close)
	c.client = &BuildClient{URL: s.URL + "/"}
	if c.taker != nil {
		c.taker.Client = c.client
	}
}

// build makes a package for the other kernel, of the same bytes each time.
func (c *buildCase) build(_ context.Context, from *pack.Package, kernel string) (*pack.Package, error) {
	c.built++
	if c.fails != nil {
		return nil, c.fails
	}
	out := fixPackage()
	out.Kernels[0].BuildID, out.Kernels[0].Version = otherBuildID, kernel
	out.Modules = map[string][]byte{otherBuildID: []byte("\x7fELF for " + kernel)}
	return out, nil
}

// work does one build that waits.
func (c *buildCase) work() {
	select {
	case key := <-c.builds.asks:
		c.builds.buildOne(c.t.Context(), key)
	default:
		c.t.Fatal("no build waits")
	}
}

func (c *buildCase) approve(p *pack.Package, policy *uapi.DynamosPolicy) error {
	content, err := p.Content()
	if err != nil {
		return err
	}
	return c.node.Trust.Change(func(s trust.State) (trust.State, error) {
		s, _, err := s.CheckPackage(p.Signatures, &trust.Facts{Name: p.Name, Class: p.Class, Content: content, Policy: policy, Trial: true, Confirm: 5 * time.Minute}, c.node.Now())
		return s, err
	})
}

func (c *buildCase) included(document []byte, f *trust.Facts) ([]string, error) {
	s, err := c.node.Trust.Load()
	if err != nil {
		return nil, err
	}
	v, err := s.CheckIncluded(document, f, otherBuildID, c.node.Now())
	return v.Signers, err
}

// stateIncluded returns what operators sign of a kernel that contains fix.
func (c *buildCase) stateIncluded(change func(*trust.Included), by ...*trust.Signer) []byte {
	c.t.Helper()
	p, err := pack.Open(c.node.Keep.path("fix", pack.Suffix))
	if err != nil {
		c.t.Fatal(err)
	}
	content, err := p.Content()
	if err != nil {
		c.t.Fatal(err)
	}
	said := trust.Included{Name: "fix", Content: content, BuildID: otherBuildID, Version: "6.1.190-1", Signed: c.node.Now().UTC().Truncate(time.Second)}
	said.Expires = said.Signed.Add(time.Hour)
	if change != nil {
		change(&said)
	}
	doc := &trust.Signed{Text: said.Encode()}
	for _, s := range by {
		doc.Sign(s)
	}
	return doc.Encode()
}

// sign signs a package of the service as operators do, and returns its bytes.
func (c *buildCase) sign(text []byte, sequence uint64) []byte {
	c.t.Helper()
	p, err := pack.Read(bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	old := c.pack
	defer func() { c.pack = old }()
	c.pack, c.sequence = p, sequence
	c.open()
	return c.bytes
}

func (c *buildCase) kept() Kept {
	c.t.Helper()
	list, err := c.node.Keep.List()
	if err != nil || len(list) != 1 {
		c.t.Fatalf("%v, %v", list, err)
	}
	return list[0]
}

// After a kernel upgrade: asked, built once, signed, taken.
func TestPackageForANewKernel(t *testing.T) {
	c := newBuildCase(t)
	for range 3 {
		if err := c.taker.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.work()
	if err := c.taker.Take(t.Context()); err != nil || c.built != 1 {
		t.Fatalf("built %d times: %v", c.built, err)
	}
	if !slices.Equal(c.said, []string{"%s: it is being built for Linux %s", "%s: it is being built for Linux %s", "%s: it is being built for Linux %s", "%s: built for Linux %s; it waits for operators to sign %.80s"}) || c.kept().BuildID != keptBuildID {
		t.Errorf("%q, kept %+v", c.said, c.kept())
	}
	list, err := c.client.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != Unsigned || list[0].Kernel != "6.1.190-1" {
		t.Fatalf("%+v, %v", list, err)
	}
	text, err := c.client.Get(t.Context(), list[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	if one, err := c.client.Offer(t.Context(), c.sign(text, 8)); err != nil || one.State != Signed {
		t.Fatalf("%+v, %v", one, err)
	}
	c.serve() // again, with what it stored
	if err := c.taker.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := c.kept()
	if k.BuildID != otherBuildID || k.Policy.Otherwise != 1 {
		t.Errorf("kept %+v", k)
	}
	if _, m, err := c.node.Keep.open(&k); err != nil || string(m) != "\x7fELF for 6.1.190-1" {
		t.Errorf("%q, %v", m, err)
	}
	c.said = nil
	if err := c.taker.Take(t.Context()); err != nil || len(c.said) > 0 {
		t.Errorf("taken again: %q, %v", c.said, err)
	}
}

// A service in other hands: it says that a package is signed, and the node finds that it is
// not, or that it is another one. Nothing is stored.
func TestUnsignedBuildIsNotTaken(t *testing.T) {
	for what, test := range map[string]struct {
		change func(c *buildCase, unsigned []byte) []byte
		name   string
		text   string
	}{
		"nobody signed it": {func(_ *buildCase, unsigned []byte) []byte { return unsigned }, trust.Unsigned, ""},
		"the signatures are another package's": {func(c *buildCase, unsigned []byte) []byte {
			p, err := pack.Read(bytes.NewReader(unsigned))
			if err != nil {
				c.t.Fatal(err)
			}
			old, err := pack.Open(c.node.Keep.path("fix", pack.Suffix))
			if err != nil {
				c.t.Fatal(err)
			}
			p.Signatures = old.Signatures
			var text bytes.Buffer
			if err := pack.Write(&text, p); err != nil {
				c.t.Fatal(err)
			}
			return text.Bytes()
		}, trust.Changed, ""},
		"an older sequence": {func(c *buildCase, unsigned []byte) []byte { return c.sign(unsigned, 6) }, trust.Older, ""},
		"another kernel":    {func(c *buildCase, _ []byte) []byte { return c.bytes }, "", "is not for this kernel"},
		"no package":        {func(_ *buildCase, _ []byte) []byte { return []byte("x") }, "", ""},
	} {
		c := newBuildCase(t)
		if err := c.taker.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.work()
		key := c.builds.List()[0].Key
		text, err := os.ReadFile(c.builds.path(key, pack.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.builds.path(key, pack.Suffix), test.change(c, text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.builds.list[key].State = Signed
		before := c.kept()
		err = c.taker.Take(t.Context())
		if err == nil || trust.Name(err) != test.name || !strings.Contains(err.Error(), test.text) || c.kept().Digest != before.Digest || c.kept().BuildID != before.BuildID {
			t.Errorf("%s: %q: %v", what, trust.Name(err), err)
		}
	}
}

// The service builds nothing that operators did not sign, stores no signature about other
// contents, and says what it cannot build.
func TestBuildServiceRefuses(t *testing.T) {
	c := newBuildCase(t)
	var unsigned bytes.Buffer
	if err := pack.Write(&unsigned, fixPackage()); err != nil {
		t.Fatal(err)
	}
	refuse := func(what, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := c.client.Ask(t.Context(), unsigned.Bytes(), "6.1.190-1")
	refuse("nobody signed it", "nobody signed fix", err)
	_, err = c.client.Ask(t.Context(), []byte("x"), "6.1.190-1")
	refuse("no package", "400", err)
	_, err = c.client.Ask(t.Context(), c.bytes, "6.1; rm -rf /")
	refuse("no kernel", "is not the version of a kernel's package", err)
	_, err = c.client.Offer(t.Context(), c.bytes)
	refuse("contents that it did not build", "built no such contents", err)
	_, err = c.client.Get(t.Context(), "../x")
	refuse("no key", "404", err)
	if c.built != 0 || len(c.builds.asks) != 0 {
		t.Error("it builds all the same")
	}
	c.fails = errFault // a fault of the machine: it is tried again
	for range 2 {
		if err := c.taker.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.work()
	}
	c.fails = refusef("net/ipv4/arp.c: is not in this kernel")
	if err := c.taker.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.work()
	refuse("it cannot be built", "it cannot be built for Linux 6.1.190-1: net/ipv4/arp.c", c.taker.Take(t.Context()))
	if c.built != 3 {
		t.Errorf("built %d times", c.built)
	}
	for n := range buildsMax {
		if _, err := c.client.Ask(t.Context(), c.bytes, "6.2."+strings.Repeat("1", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.client.Ask(t.Context(), c.bytes, "6.3")
	refuse("too many wait", "32 builds wait already", err)
	file := c.builds.path(strings.Repeat("0", 64), ".json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse("a damaged record", "is damaged", c.builds.Open())
}

// A new kernel that contains the change needs no update: the service finds that once, and then
// neither the boot nor a roll takes it for a failure. In the old kernel it is restored as before.
func TestUpdateThatIsIncluded(t *testing.T) {
	c := newBuildCase(t)
	c.fails = &source.IncludedError{Version: "6.1.190-1"}
	if err := c.taker.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.work()
	c.serve() // it is stored
	if one := c.builds.List()[0]; one.State != Contains || !strings.Contains(one.Why, "included: the source of 6.1.190-1 contains each change") {
		t.Fatalf("%+v", one)
	}
	for range 2 {
		if err := c.taker.Take(t.Context()); err != nil || c.built != 1 {
			t.Errorf("built %d times, %v", c.built, err)
		}
	}
	if last := c.said[len(c.said)-1]; !strings.Contains(last, "waits for operators to compare and sign") || c.node.Keep.IncludedIn("fix", otherBuildID) {
		t.Fatalf("the word of the service is enough: %q, %+v", last, c.kept())
	}
	if one, err := c.client.State(t.Context(), c.stateIncluded(nil, c.signer)); err != nil || one.State != Stated {
		t.Fatalf("%+v, %v", one, err)
	}
	c.serve()
	for range 2 {
		if err := c.taker.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if last := c.said[len(c.said)-1]; !strings.Contains(last, "contains the change, as %s signed") || !c.node.Keep.IncludedIn("fix", otherBuildID) || c.node.Keep.IncludedIn("fix", keptBuildID) || c.node.Keep.IncludedIn("fix", "") {
		t.Errorf("%q, %+v", c.said, c.kept())
	}
	if k := c.kept(); len(k.Contained.Signers) != 1 || !strings.Contains(k.Contained.Signers[0], c.signer.ID()) {
		t.Errorf("%+v", k.Contained)
	}
	kernel := freshKernel()
	kernel.build = otherBuildID
	if err := boot(t, c.node.Keep, kernel, "b1", true, false); err != nil || len(kernel.did) != 0 {
		t.Errorf("the new kernel: did %q, %v", kernel.did, err)
	}
	kernel.build = keptBuildID
	if err := boot(t, c.node.Keep, kernel, "b2", true, false); err != nil || !slices.Contains(kernel.did, "commit fix") {
		t.Errorf("the old kernel: did %q, %v", kernel.did, err)
	}
	c.kernel.build = otherBuildID
	if _, err := c.open().Package(); !isRefused(err, "included: this kernel contains the change") {
		t.Errorf("a roll: %v", err)
	}
}

// A service in other hands says of a kernel what operators did not sign. The node goes on
// asking, and never takes the update for included.
func TestInclusionThatNobodySigned(t *testing.T) {
	mallory := rollSigner(t)
	for what, test := range map[string]struct {
		document func(c *buildCase) []byte
		name     string
	}{
		"nobody signed it": {func(c *buildCase) []byte { return c.stateIncluded(nil) }, trust.Unsigned},
		"its own key":      {func(c *buildCase) []byte { return c.stateIncluded(nil, mallory) }, trust.Threshold},
		"about other kernels": {func(c *buildCase) []byte {
			return c.stateIncluded(func(i *trust.Included) { i.BuildID = keptBuildID }, c.signer)
		}, trust.Mixed},
		"about other contents": {func(c *buildCase) []byte {
			return c.stateIncluded(func(i *trust.Included) { i.Content = strings.Repeat("0", 64) }, c.signer)
		}, trust.Mixed},
		"a package": {func(c *buildCase) []byte { return c.bytes }, trust.Malformed},
	} {
		c := newBuildCase(t)
		c.fails = &source.IncludedError{Version: "6.1.190-1"}
		if err := c.taker.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.work()
		if _, err := c.client.State(t.Context(), test.document(c)); err == nil && test.name != trust.Mixed {
			t.Errorf("%s: the service takes it", what)
		}
		key := c.builds.List()[0].Key
		c.builds.list[key].State = Stated
		if err := os.WriteFile(c.builds.path(key, statedFile), test.document(c), 0o600); err != nil {
			t.Fatal(err)
		}
		err := c.taker.Take(t.Context())
		if trust.Name(err) != test.name || c.node.Keep.IncludedIn("fix", otherBuildID) {
			t.Errorf("%s: %q: %v", what, trust.Name(err), err)
		}
	}
	c := newBuildCase(t)
	if _, err := c.client.State(t.Context(), c.stateIncluded(nil, c.signer)); err == nil || !strings.Contains(err.Error(), "did not find that 6.1.190-1 contains fix") {
		t.Errorf("what it was not asked: %v", err)
	}
	if err := c.taker.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.work()
	if _, err := c.client.State(t.Context(), c.stateIncluded(nil, c.signer)); err == nil || c.builds.List()[0].State != Unsigned {
		t.Errorf("what it built all the same: %v", err)
	}
}
