// SPDX-License-Identifier: MIT

package rolls

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
)

// builds are build-ids of three kernels, and digests those of packages for the first two.
var (
	builds  = []string{strings.Repeat("01", 20), strings.Repeat("02", 20), strings.Repeat("03", 20)}
	digests = []string{strings.Repeat("ab", 32), strings.Repeat("cd", 32)}
)

func variantSpec() Spec {
	s := testSpec
	s.Variants = []Variant{{digests[0], builds[:1]}, {digests[1], builds[1:2]}}
	return s
}

// Each node takes the package for its kernel. A node that boots another kernel was not
// harmed: it takes the package for that one, in the time of a wave. One for whose kernel
// there is none is left out and says why.
func TestRollOfSeveralKernels(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	for name, build := range map[string]string{"a": builds[0], "b": builds[1], "c": builds[2]} {
		f.nodes[name].k.build = build
		f.start(name)
	}
	f.begin(variantSpec(), "1,all")
	f.awaitState(roll.Done)
	f.run("the commits", func() bool { return f.count(committed) == 2 })
	for i, want := range []string{digests[0], digests[1], ""} {
		name := string(rune('a' + i))
		if n := f.hub.rolls["fix"].Roll.Nodes[name]; n.Last.Package != want {
			t.Errorf("%s takes the package %q", name, n.Last.Package)
		}
	}
	if n := f.status().Nodes[2]; n.Failed != "it refused: none of the packages is for this kernel" {
		t.Errorf("%+v", n)
	}
	k := f.nodes["a"].k
	k.did, k.boot, k.build, k.now, k.state = nil, "2", builds[1], 0, Absent
	f.start("a")
	f.run("the commit in another kernel", func() bool { return k.state == Kept })
	if want := []string{"stage package", "load", "canary"}; !slices.Equal(k.did[:3], want) || !slices.Contains(k.did, "node") {
		t.Errorf("in another kernel it did %v", k.did)
	}
	if r := f.hub.rolls["fix"].Roll; r.Blocked || r.Nodes["a"].Last.Package != digests[1] {
		t.Errorf("blocked %v, package %q", r.Blocked, r.Nodes["a"].Last.Package)
	}
	// In the same kernel it waits for what is restored.
	k.did, k.boot, k.now, k.state = nil, "3", 0, Absent
	f.start("a")
	f.run("reports", func() bool { return k.now > 20*reportEvery })
	if len(k.did) > 0 {
		t.Errorf("in the same kernel it did %v", k.did)
	}
}

func TestSpecOfSeveralPackages(t *testing.T) {
	for what, change := range map[string]func(s *Spec){
		"one package":            func(s *Spec) { s.Variants = s.Variants[:1] },
		"too many":               func(s *Spec) { s.Variants = manyVariants(variantsMax + 1) },
		"another one is first":   func(s *Spec) { s.Package = digests[1] },
		"no digest":              func(s *Spec) { s.Variants[1].Package = "cd" },
		"no kernel":              func(s *Spec) { s.Variants[1].Kernels = nil },
		"a kernel twice":         func(s *Spec) { s.Variants[1].Kernels = builds[:1] },
		"a kernel without an id": func(s *Spec) { s.Variants[1].Kernels = []string{"6.1"} },
		"too many kernels":       func(s *Spec) { s.Variants[1].Kernels = make([]string, pack.MaxKernels+1) },
	} {
		s := variantSpec()
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if s.Check() == nil {
			t.Errorf("%s is no error", what)
		}
	}
	s := testSpec
	if d, ok := s.PackageFor("any"); !ok || d != s.Package {
		t.Errorf("the only package is %q, %v", d, ok)
	}
}

func manyVariants(n int) (list []Variant) {
	for i := range n {
		list = append(list, Variant{digests[0], []string{fmt.Sprintf("%040x", i)}})
	}
	return list
}

func TestVariantsOfPackages(t *testing.T) {
	of := func(name, class string, builds ...string) *pack.Package {
		p := &pack.Package{Manifest: pack.Manifest{Name: name, Class: class}}
		for _, b := range builds {
			p.Kernels = append(p.Kernels, pack.Kernel{BuildID: b, Release: "6.1", Version: "6.1-" + b[:2]})
		}
		return p
	}
	list, err := NewVariants(digests, []*pack.Package{of("fix", pack.Any, builds[0]), of("fix", pack.Any, builds[1:]...)})
	if err != nil || len(list) != 2 || list[1].Package != digests[1] || len(list[1].Kernels) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := NewVariants(digests[:1], []*pack.Package{of("fix", pack.Any, builds...)}); list != nil || err != nil {
		t.Errorf("one package: %v, %v", list, err)
	}
	for what, second := range map[string]*pack.Package{
		"two packages are for the kernel 6.1 (6.1-01)": of("fix", pack.Any, builds[:2]...),
		"fix of class any, and fox of class any":       of("fox", pack.Any, builds[1]),
		"fix of class any, and fix of class task":      of("fix", pack.Task, builds[1]),
	} {
		if _, err := NewVariants(digests, []*pack.Package{of("fix", pack.Any, builds[0]), second}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
