// SPDX-License-Identifier: MIT

package asm

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

const named = `
int keep(int a) { seen("keep"); return a; }
int set(int a) { seen("set"); return a + 2; }
int (*const table[])(int) = { keep, set };
int run(int a) { return set(a) + 1; }
`

func TestRenamedFunctionIsNoChange(t *testing.T) {
	before := compileSource(t, "before", named)
	after := compileSource(t, "after", replaceText(t, replaceText(t, replaceText(t, named, "int set(", "int set_all("), "keep, set ", "keep, set_all "), "set(a) + 1", "set_all(a) + 1"))
	names := FindRenamed(parseUnit(t, before), parseUnit(t, after))
	if !maps.Equal(names, map[string]string{"set_all": "set"}) {
		t.Fatalf("renamed: %v", names)
	}
	c, err := Compare(parseUnit(t, before), parseUnit(t, string(RenameSymbols([]byte(after), names))))
	if err != nil || !c.IsEmpty() {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := Compare(parseUnit(t, before), parseUnit(t, after)); err == nil {
		t.Error("a table with another name in it is no change")
	}
}

func TestRenamedAndChangedFunctionIsNew(t *testing.T) {
	after := replaceText(t, replaceText(t, named, "set(", "set_all("), "keep, set ", "keep, set_all ")
	for _, other := range []string{replaceText(t, after, "a + 2", "a + 3"), replaceText(t, after, "int set_all(int a) {", "static int set_all(int a) {")} {
		if names := FindRenamed(parseUnit(t, compileSource(t, "before", named)), parseUnit(t, compileSource(t, "after", other))); len(names) > 0 {
			t.Errorf("renamed: %v", names)
		}
	}
}

func TestRenameTakesWholeNames(t *testing.T) {
	const text = "\t.section\t.text.f,\"ax\"\nf:\n\tcall\tff\n\tmovq\t$f, f+4(%rip)\n\t.quad f,f,f.x\n\t.string \"f f\"\n"
	const want = "\t.section\t.text.g,\"ax\"\ng:\n\tcall\tff\n\tmovq\t$g, g+4(%rip)\n\t.quad g,g,g.x\n\t.string \"f f\"\n"
	if got := string(RenameSymbols([]byte(text), map[string]string{"f": "g"})); got != want {
		t.Errorf("got %q", got)
	}
}

func TestNewFunctionOfAnotherFileIsCarried(t *testing.T) {
	const user, maker = "int run(int a) { seen(\"run\"); return a; }\n", "int old(int a) { seen(\"old\"); return a; }\n"
	uses, err := compareTexts(t, user, "extern int made(int);\n"+replaceText(t, user, "return a", "return made(a)"))
	if err != nil {
		t.Fatal(err)
	}
	makes, err := compareTexts(t, maker, maker+"static noinline int help(int a) { seen(\"help\"); return a; }\nint made(int a) { return help(a) + 1; }\nint idle(int a) { return a; }\n")
	if err != nil {
		t.Fatal(err)
	}
	if !makes.IsEmpty() || !maps.Equal(nameSet(makes.Added()), nameSet([]string{"made", "idle"})) {
		t.Errorf("none: %v, added: %v", makes.IsEmpty(), makes.Added())
	}
	if needs := nameSet(uses.Needed()); !needs["made"] || !needs["seen"] || needs["run"] || needs["idle"] {
		t.Errorf("needs: %v", needs)
	}
	if err := makes.Carry("made"); err != nil {
		t.Fatal(err)
	}
	checkNames(t, "new", makes.New, "help", "made")
	checkNames(t, "added", makes.Added(), "idle")
	if makes.IsEmpty() || len(makes.Extract("u_1").Functions) != 0 {
		t.Error("what is carried replaces nothing, and is there")
	}
}

func TestMovedFunctionReplacesTheKernels(t *testing.T) {
	const stays, other = "int stays(int a) { seen(\"stays\"); return a; }\n", "int other(int a) { seen(\"other\"); return a; }\n"
	const goes = "static noinline int help(int a) { seen(\"help\"); return a; }\nnoinline int goes(int a) { seen(\"goes\"); return help(a) + 1; }\n"
	const uses = "extern int goes(int);\n"
	for _, c := range []struct {
		name, goes string
		changed    []string
		text       string
	}{
		{"the function is moved unchanged", goes, []string{"other"}, ""},
		{"the function is moved and changed", replaceText(t, goes, "help(a) + 1", "help(a) + 2"), []string{"goes", "other"}, "u_0:"},
		{"a function that it calls is changed", replaceText(t, goes, "return a;", "return a + 3;"), []string{"goes", "other"}, "help:"},
		{"the function becomes static", replaceText(t, goes, "noinline int goes(", "static noinline int goes("), []string{"other"}, "goes:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := compareTexts(t, stays+goes, stays)
			if err != nil {
				t.Fatal(err)
			}
			to, err := compareTexts(t, other, c.goes+replaceText(t, other, "return a", "return goes(a)"))
			if err != nil {
				t.Fatal(err)
			}
			if err := to.Adopt(from); err != nil {
				t.Fatal(err)
			}
			slices.Sort(to.Changed)
			checkNames(t, "changed", to.Changed, c.changed...)
			moved := slices.Contains(c.changed, "goes")
			if (to.From["goes"] == from) != moved || slices.Contains(to.Added(), "goes") {
				t.Errorf("from %v, added %v", to.From, to.Added())
			}
			if text := string(to.Extract("u").Text); !strings.Contains(text, c.text) || strings.Contains(text, "help:") != (c.text != "") {
				t.Errorf("want %q in\n%s", c.text, text)
			}
		})
	}
	user, err := compareTexts(t, other, uses+replaceText(t, other, "return a", "return goes(a)"))
	if err != nil || slices.Contains(user.Changed, "goes") {
		t.Errorf("%v, %v", user, err)
	}
}

func TestAmbiguousMovedFunctionIsRefused(t *testing.T) {
	const goes, other = "int goes(int a) { seen(\"goes\"); return a + 1; }\n", "int other(int a) { seen(\"other\"); return a; }\n"
	from := func(text string) *Change {
		c, err := compareTexts(t, text, "int left;\n")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	to := func(text string) *Change {
		c, err := compareTexts(t, other, other+text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	new := replaceText(t, goes, "a + 1", "a + 2")
	for _, c := range []struct {
		name, text, why string
		from            []string
	}{
		{"two files had a function of that name", new, "several files", []string{goes, goes}},
		{"the old function is notrace", new, "notrace", []string{replaceText(t, goes, "int", "notrace int")}},
		{"the new function is __init", "__init " + new, "freed after the kernel has booted", []string{goes}},
		{"the function has a static local variable", replaceText(t, new, "return a", "static int count; return count++ + a"), "the kernel's own is in use", []string{replaceText(t, goes, "return a", "static int count; return count++ + a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			change, err := to(c.text), error(nil)
			for _, text := range c.from {
				old := from(text)
				if err == nil {
					err = change.Adopt(old)
				}
				if err == nil {
					err = change.LostVariable(old)
				}
			}
			var r *Refusal
			if !errors.As(err, &r) || !strings.Contains(r.Reason, c.why) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInitFunctionIsNotCarried(t *testing.T) {
	c, err := compareTexts(t, "int old(int a) { seen(\"old\"); return a; }\n", "int old(int a) { seen(\"old\"); return a; }\n__init int made(int a) { return a; }\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Carry("made"); err == nil {
		t.Error("it is carried")
	}
}

func nameSet(names []string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}
