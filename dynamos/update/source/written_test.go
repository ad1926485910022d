// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Functions of a file, each named by what it uses.
const writtenC = `#include <small.h>
struct box { int width; };
typedef struct box carton;
static carton *first;
static int helper(int a) { return a + 1; }
static int middle(int a) { return helper(a); }
int uses_helper(int a) { return helper(a); }
int uses_middle(int a) { return middle(a); }
int uses_macro(int a) { return STEP(a); }
int uses_struct(void) { return first->width; }
int uses_nothing(int a) { return a; }
`

func TestWrittenIsWhatThePatchChanges(t *testing.T) {
	for _, c := range []struct{ what, old, new, want string }{
		{"a function that nothing calls", "int uses_nothing(int a) { return a; }", "int uses_nothing(int a) { return -a; }", "uses_nothing"},
		{"a function that others call", "return a + 1", "return a + 2", "uses_helper uses_middle"},
		{"a function is no longer static", "static int helper", "int helper", ""},
		{"an #include is added", "#include <small.h>\n", "#include <small.h>\n#include <other.h>\n", "uses_helper uses_middle uses_macro uses_struct uses_nothing"},
		{"assembly outside of functions is added", "static carton", "asm(\"nop\");\nstatic carton", "uses_helper uses_middle uses_macro uses_struct uses_nothing"},
		{"a static local variable is added", "int uses_nothing(int a) {", "int uses_nothing(int a) {\n\tstatic int n;", "uses_nothing"},
		{"a prototype is added", "static carton", "int uses_nothing(int a);\nstatic carton", ""},
		{"a prototype with an attribute is added", "static carton", "__attribute__((cold)) int uses_nothing(int a);\nstatic carton", "uses_nothing"},
		{"a declaration of a variable named as a function is added", "static carton", "extern int helper;\nstatic carton", "uses_helper uses_middle"},
		{"a member of a structure changes its type", "int width", "long width", "uses_struct"},
	} {
		tree := smallTree(t)
		if err := os.WriteFile(filepath.Join(tree.Dir, "mm/leaf.c"), []byte(writtenC), 0o644); err != nil {
			t.Fatal(err)
		}
		w := &Work{tree: tree, Files: []string{"mm/leaf.c"}, old: map[string]string{"mm/leaf.c": writtenC},
			new: map[string]string{"mm/leaf.c": strings.Replace(writtenC, c.old, c.new, 1)}}
		expectWritten(t, c.what, w.changedFunctions("mm/leaf.c"), c.want)
	}
	w := &Work{tree: smallTree(t), Files: []string{"include/small.h"}, old: map[string]string{"include/small.h": smallH},
		new: map[string]string{"include/small.h": strings.Replace(smallH, "+ 1", "+ 2", 1)}}
	if err := os.WriteFile(filepath.Join(w.tree.Dir, "mm/leaf.c"), []byte(writtenC), 0o644); err != nil {
		t.Fatal(err)
	}
	expectWritten(t, "a macro", w.changedFunctions("mm/leaf.c"), "uses_macro")
	w.Files = append(w.Files, "mm/other.c")
	w.old["mm/other.c"], w.new["mm/other.c"] = otherC, "#include <layout.h>\n"+otherC+"int uses_nothing(int a) { return a; }\n"
	expectWritten(t, "another file", w.changedFunctions("mm/leaf.c"), "uses_macro")
	if !w.changedFunctions("mm/leaf.c")("not_to_be_found") {
		t.Error("a function that the text does not show is not changed")
	}
}

func TestHeaderOfDeclarationsAffectsNoFile(t *testing.T) {
	for new, nobody := range map[string]bool{
		"int more(int a);\n":         true,
		"/* a comment */\n":          true,
		"extern int more;\n":         false,
		"__cold int more(int a);\n":  false,
		"int more(int (*f)(int));\n": false,
		"#include <layout.h>\n":      false,
		"#define MORE 1\n":           false,
		"int here(long a);\n":        false,
		"DEFINE(more);\n":            false,
	} {
		const old = "#ifndef H\n#define H\nint here(int a);\n#endif\n"
		if got := onlyDeclares(old, strings.Replace(old, "#endif", new+"#endif", 1)); got != nobody {
			t.Errorf("%q: %v", new, got)
		}
	}
}

func expectWritten(t *testing.T, what string, written func(string) bool, want string) {
	t.Helper()
	var got []string
	for _, name := range []string{"uses_helper", "uses_middle", "uses_macro", "uses_struct", "uses_nothing"} {
		if written(name) {
			got = append(got, name)
		}
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%s: %v, want %s", what, got, want)
	}
}
