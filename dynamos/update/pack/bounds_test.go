// SPDX-License-Identifier: MIT

package pack

import (
	"strings"
	"testing"
)

// Each bound of a manifest allows its largest value and refuses one more, with its words.
func TestBoundsOfAManifest(t *testing.T) {
	text := func(n int) string { return strings.Repeat("t", n) }
	many := func(n int) []string { return make([]string, n) }
	for _, c := range []struct {
		name  string
		set   func(m *Manifest, more int)
		words string
	}{
		{"a name", func(m *Manifest, more int) { m.Name = text(maxName + more) }, "is not the name of an update"},
		{"a reason", func(m *Manifest, more int) { m.Reasons = []string{text(maxText + more)} }, "a text of its manifest is too long"},
		{"why", func(m *Manifest, more int) { m.Because = text(maxText + more) }, "a text of its manifest is too long"},
		{"reasons", func(m *Manifest, more int) { m.Reasons = many(maxList + more) }, "a text of its manifest is too long"},
		{"files", func(m *Manifest, more int) { m.Files = many(maxList + more) }, "a text of its manifest is too long"},
		{"data", func(m *Manifest, more int) { m.Kernels[0].Data = many(maxList + more) }, "kernel 1 of its manifest: a text is too long"},
		{"held", func(m *Manifest, more int) { m.Kernels[0].Held = many(maxList + more) }, "a text is too long"},
		{"a release", func(m *Manifest, more int) { m.Kernels[0].Release = text(maxText + more) }, "a text is too long"},
		{"a version", func(m *Manifest, more int) { m.Kernels[0].Version = text(maxText + more) }, "a text is too long"},
		{"imports", func(m *Manifest, more int) {
			m.Kernels[0].Imports = nil
			for range maxList + more {
				m.Kernels[0].Imports = append(m.Kernels[0].Imports, Symbol{Name: "x"})
			}
		}, "imports, 0 layouts; at most"},
		{"layouts", func(m *Manifest, more int) {
			for range maxList + more {
				m.Kernels[0].Layouts = append(m.Kernels[0].Layouts, Layout{Name: "struct x", Because: "new"})
			}
		}, "layouts; at most"},
		{"functions", func(m *Manifest, more int) {
			f := m.Kernels[0].Functions[0]
			m.Kernels[0].Functions = nil
			for n := range MaxFunctions + more {
				f.Position = n
				m.Kernels[0].Functions = append(m.Kernels[0].Functions, f)
			}
		}, "functions; 1 to"},
		{"a symbol", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Name = text(maxSymbol + more) }, "is not a symbol"},
		{"a position", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Position = 1<<20 - 1 + more }, "is not a symbol"},
		{"arguments", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Args = 6 + more }, "0 to 6 are possible"},
		{"an argument", func(m *Manifest, more int) { n := 2 + more; m.setObjectArg(&n) }, "has no argument 3"},
		{"an old size", func(m *Manifest, more int) { m.Kernels[0].Functions[0].OldSize = MaxModule + more }, "which cannot be"},
		{"a size", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Size = MaxModule + more }, "which cannot be"},
		{"a least old size", func(m *Manifest, more int) { m.Kernels[0].Functions[0].OldSize = 1 - more }, "which cannot be"},
		{"a text", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Type = "~ " + string(rune('~'+more)) }, "a text is too long, or not text"},
		{"a digest", func(m *Manifest, more int) { m.Kernels[0].Functions[0].Original = strings.Repeat("a", 64+2*more) }, "is not a SHA-256"},
		{"a module's digest", func(m *Manifest, more int) { m.Kernels[0].SHA256 = strings.Repeat("f", 64+2*more) }, "is not a SHA-256"},
		{"a digit", func(m *Manifest, more int) { m.Kernels[0].SHA256 = strings.Repeat(string(rune('f'+more)), 64) }, "is not a SHA-256"},
	} {
		for more := range 2 {
			p := examplePackage()
			p.Kernels[0].File, p.Kernels[0].SHA256 = kernelA+".ko", strings.Repeat("0", 64)
			c.set(&p.Manifest, more)
			err := p.Check()
			if more == 0 && err != nil {
				t.Errorf("%s at its bound: %v", c.name, err)
			}
			if more == 1 && (err == nil || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("%s beyond its bound: %v, want %q", c.name, err, c.words)
			}
		}
	}
	m := &examplePackage().Manifest
	for _, proposed := range []string{"", "none"} {
		m.Proposed, m.Because = proposed, "it is so"
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), "not a class to propose") {
			t.Errorf("%q: %v", proposed, err)
		}
	}
}

// Calls that are not counted go with class together, and with no counted argument.
func TestUncountedFunctionOfAManifest(t *testing.T) {
	for _, c := range []struct {
		class string
		args  int
		valid bool
	}{{Together, 0, true}, {Together, 1, false}, {Any, 0, false}, {Task, 0, false}, {Object, 0, false}} {
		f := Function{Symbol: Symbol{Name: "f"}, Args: c.args, Uncounted: true, Result: Value, OldSize: 1, Size: 1, Original: strings.Repeat("a", 64)}
		if err := f.check(c.class); (err == nil) != c.valid || err != nil && !strings.Contains(err.Error(), "the calls of f cannot be counted") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The functions of an update are those of one module, or of the image.
func TestModuleOfAManifest(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(k *Kernel)
		valid bool
	}{
		"a module":                      {func(*Kernel) {}, true},
		"a module without its build-id": {func(k *Kernel) { k.ModuleID = "" }, false},
		"a build-id without a module":   {func(k *Kernel) { k.Module, k.Functions[0].Module = "", "" }, false},
		"another module's function":     {func(k *Kernel) { k.Functions[0].Module = "other" }, false},
		"the image's function":          {func(k *Kernel) { k.Functions[0].Module = "" }, false},
		"calls that are counted":        {func(k *Kernel) { k.Functions[0].Uncounted = false }, false},
		"a symbol of the module":        {func(k *Kernel) { k.Imports = []Symbol{{Name: "x", Module: "dummy"}} }, true},
		"a symbol of a needed module":   {func(k *Kernel) { k.Imports = []Symbol{{Name: "x", Module: "needed"}} }, true},
		"a symbol of a path":            {func(k *Kernel) { k.Imports = []Symbol{{Name: "x", Module: "a/needed"}} }, false},
		"a module's, without a module": {func(k *Kernel) {
			k.Module, k.ModuleID, k.Functions[0].Module = "", "", ""
			k.Imports = []Symbol{{Name: "x", Module: "needed"}}
		}, false},
		"a name that is not a module's": {func(k *Kernel) { k.Module, k.Functions[0].Module = `a"b`, `a"b` }, false},
		"a build-id that is none":       {func(k *Kernel) { k.ModuleID = strings.Repeat("x", 40) }, false},
	} {
		k := Kernel{BuildID: kernelA, File: kernelA + ".ko", SHA256: strings.Repeat("0", 64), Module: "dummy", ModuleID: strings.Repeat("a", 40),
			Functions: []Function{{Symbol: Symbol{Name: "f", Module: "dummy"}, Uncounted: true, Result: Value, OldSize: 1, Size: 1, Original: strings.Repeat("a", 64)}}}
		c.set(&k)
		if err := k.check(Together); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A kernel is found by its build-id, and may be changed where it is.
func TestKernelOfAManifest(t *testing.T) {
	m := &Manifest{Kernels: []Kernel{{BuildID: "a"}, {BuildID: "b"}}}
	if k, ok := m.Kernel("b"); !ok || k != &m.Kernels[1] {
		t.Errorf("%v, %v", k, ok)
	}
	if k, ok := m.Kernel("c"); ok || k != nil {
		t.Errorf("%v, %v", k, ok)
	}
}

// Names are those that C and a file system both take.
func TestNamesOfUpdates(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "_9": true, "": false, "9a": false, "A": false, "a-b": false, "a.b": false} {
		if ValidName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	for name, want := range map[string]bool{"a": true, "A.b_9": true, "": false, "9a": false, "0": false, "a,b": false} {
		if ValidSymbol(name) != want {
			t.Errorf("symbol %q: %v", name, !want)
		}
	}
	for text, want := range map[string]string{`{"revision":2} {}`: "continues after its end", `{"revision":2}x`: "continues after its end",
		`{"revision":2,"more":1}`: "its manifest is invalid", `{`: "its manifest is invalid"} {
		if _, err := decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
