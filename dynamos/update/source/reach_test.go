// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const wideH = `
#ifndef WIDE_H
#define WIDE_H
#define STEP(a) \
	((a) + 1)
struct box { int width, height; };
enum shape { ROUND, SQUARE };
extern int far(struct box *b);
static inline int area(struct box *b) { return b->width * b->height; }
static inline __attribute__((unused)) int twice(int a)
{
	if (a > 1) { a++; }
	return 2 * a; /* not STEP */
}
#ifdef CONFIG_X
static inline int maybe(int a) { return a; }
#endif
#endif
`

// Each source tells by its name what it sees.
var wideTree = map[string]string{
	"include/wide.h":  wideH,
	"include/other.h": "#include <wide.h>\n#define JUMP(a) STEP(STEP(a))\nstruct carton { struct box inner; };\nstruct list { struct box *first; };\nstruct box *give(void);\nint hint(int STEP);\n",
	"step.c":          "#include <wide.h>\nint f(int a) { return STEP(a); }\n",
	"jump.c":          "#include <other.h>\nint f(int a) { return JUMP(a); }\n",
	"box.c":           "#include <wide.h>\nint f(struct box *b) { return far(b); }\n",
	"carton.c":        "#include <other.h>\nint f(struct carton *c) { return sizeof(*c); }\n",
	"list.c":          "#include <other.h>\nint f(struct list *l) { return l != 0; }\n",
	"lid.c":           "#include <other.h>\nint f(struct list *l) { return l->first->height; }\n",
	"give.c":          "#include <other.h>\nint f(void) { return give()->height; }\n",
	"twice.c":         "#include <wide.h>\nint f(int a) { return twice(a); }\n",
	"maybe.c":         "#include <wide.h>\nint f(int a) { return maybe(a); }\n",
	"enum.c":          "#include <wide.h>\nint f(void) { return SQUARE; }\n",
	"none.c":          "#include <other.h>\nint f(void) { return 1; }\n",
	"inside.c":        "#include \"inside.h\"\n",
	"inside.h":        "#include <wide.h>\nstatic int deep(int a) { return twice(a); }\n",
}

func TestNarrowFollowsNames(t *testing.T) {
	tree := &Tree{Dir: t.TempDir()}
	var users []string
	for name, text := range wideTree {
		path := filepath.Join(tree.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".c") {
			users = append(users, name)
		}
	}
	slices.Sort(users)
	for _, c := range []struct {
		name, old, new string
		want           string
	}{
		{"a macro that another macro uses", "+ 1)", "+ 2)", "jump step"},
		{"a comment", "not STEP", "still not STEP", ""},
		{"an inline function", "2 * a", "3 * a", "inside twice"},
		{"a member of a structure is added", "int width, height", "int width, depth, height", "box carton give lid"},
		{"an enumerator is added", "ROUND,", "ROUND, OVAL,", "enum"},
		{"the condition of an #ifdef", "CONFIG_X", "CONFIG_Y", "maybe"},
		{"a prototype is added", "extern int far", "int near(int a);\nextern int far", ""},
		{"braces that do not pair", "static inline int area", "#ifdef Z\nint q(int a) {\n#else\nint q(void) {\n#endif\nreturn 1; }\nstatic inline int area", "all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			new := strings.Replace(wideH, c.old, c.new, 1)
			if new == wideH {
				t.Fatal("nothing changes")
			}
			var got []string
			for _, u := range tree.narrowUsers(newIncludes(tree.Dir), users, wideH, new) {
				got = append(got, strings.TrimSuffix(u, ".c"))
			}
			if c.want == "all" && len(got) == len(users) {
				return
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	old := "static int f(int a)\n{\n\treturn a;\n}\nint g(void) { return 1; }\n" +
		"SYSCALL_DEFINE1(one, int, a)\n{\n\treturn f(a);\n}\nSYSCALL_DEFINE1(two, int, b)\n{\n\treturn f(b);\n}\n"
	for _, c := range []struct{ old, new, want string }{
		{"f(int a)", "f(int a, int b)", "x.c: f has other parameters or another result"},
		{"int g(void)", "long g(void)", "x.c: g has other parameters or another result"},
		{"static int f(", "int f(", ""},
		{"return a", "return a + 1", ""},
		{"return f(a)", "return f(-a)", ""},
		{"one, int, a", "one, long, a", "x.c: SYSCALL_DEFINE1 has other parameters or another result"},
	} {
		if got := strings.Join(changedParams("x.c", old, strings.Replace(old, c.old, c.new, 1)), "; "); got != c.want {
			t.Errorf("%s: %q", c.new, got)
		}
	}
}
