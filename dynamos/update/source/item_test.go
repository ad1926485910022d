// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// formatItems writes items as KIND NAMES [tag TAG] [parts PARTS], one a line.
func formatItems(list []item) string {
	var b strings.Builder
	for _, it := range list {
		fmt.Fprintf(&b, "%c %s", it.kind, strings.Join(it.names, " "))
		if it.tag != "" {
			fmt.Fprintf(&b, " tag %s", it.tag)
		}
		if len(it.parts) > 0 {
			fmt.Fprintf(&b, " parts %s", strings.Join(it.parts, " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestItemsOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		"int a;":                                 "p a",
		"int a = 1, b[2][3], c:4;":               "p a b c",
		"extern int f(int a);":                   "p f",
		"__printf(1, 2) int say(char *s, ...);":  "p say",
		"int __must_hold(lock) f(int a)\n{ }":    "f f",
		"#define A 1\n":                          "m A",
		"# define B(x) \\\n (x)\nint c;":         "m B\np c",
		"#define \n":                             "",
		"struct s { int a; long b[2]; } x;":      "s s x tag s parts a b x",
		"struct s;":                              "p s",
		"struct { int a; } x;":                   "s a x parts a x",
		"union u { int a; struct t *b; };":       "s u tag u parts a b",
		"typedef struct { int a; } t;":           "s a t parts a t",
		"enum e { ONE, TWO = 2 };":               "s e ONE TWO",
		"enum { ONE };":                          "s ONE",
		"struct __packed s { int a; };":          "s s tag s parts a",
		"static int t[] = { f(1), 2 };":          "p t",
		"SYSCALL_DEFINE1(one, int, a)\n{ }":      "f SYSCALL_DEFINE1 one int a",
		"static DEFINE_MUTEX(lock);":             "p DEFINE_MUTEX lock",
		"int f(void) { return '{'; }\nint g;":    "f f\np g",
		"int f(void) { return '\\''; }\nint g;":  "f f\np g",
		"char *s = \"\\\"{\";\nint g;":           "p s\np g",
		"int f(void) { /* { */ }\nint g;":        "f f\np g",
		"int f(void) // {\n{ }\nint g;":          "f f\np g",
		"int f(void) { if (a) { b; } }\nint g;":  "f f\np g",
		"int f(int a,\n int b)\n{ c(); }\nint g": "f f\np ",
		";;\n":                                   "",
		"}\nint g;":                              "p g",
	} {
		list, whole := splitItems(text)
		if want != "" {
			want += "\n"
		}
		if got := formatItems(list); got != want || !whole {
			t.Errorf("%q:\n%swant\n%s(whole %v)", text, got, want, whole)
		}
	}
}

// What looks like a call and says something about the function is not its name.
func TestAttributesAreNoNames(t *testing.T) {
	for _, attribute := range []string{"__attribute__", "__printf", "__scanf", "__aligned", "__section", "__acquires", "__releases",
		"__must_hold", "__alloc_size", "__malloc", "sizeof"} {
		for text, want := range map[string]string{attribute + "(x) int f(int a);": "p f\n", attribute + "(x) int g(int a) { }": "f g\n"} {
			if list, _ := splitItems(text); formatItems(list) != want {
				t.Errorf("%s: %s", text, formatItems(list))
			}
		}
	}
}

// What does not pair may hide items: then nothing is concluded from their absence.
func TestItemsOfATornFile(t *testing.T) {
	for text, whole := range map[string]bool{
		"int f(void)\n{\n}\n": true, "int f(void)\n{\n": false, "int f(int a\n": false, "#if A\nint b;\n": false,
		"#if A\nint b;\n#endif\n": true, "#endif\nint b;\n": true, "#else\nint b;\n": true, "#if A\n#if B\n#endif\nint b;\n": false,
	} {
		if _, got := splitItems(text); got != whole {
			t.Errorf("%q is whole: %v", text, got)
		}
	}
}

// Two versions of a file and the items that differ: blanks and comments do not count, the
// conditions around an item do.
func TestItemsThatDiffer(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"nothing":                          {"int a;\nint b;\n", "int b; int a;\n", ""},
		"blanks and comments":              {"int f(int a) { return a; }", "int f(int a)\n{\n\treturn a; /* it */\n}", ""},
		"an escaped character":             {`int f(void) { return '\n'; }`, `int f(void) { return '\t'; }`, "f f\nf f\n"},
		"a character behind an escape":     {`char s[] = "\\a";`, `char s[] = "\\b";`, "p s\np s\n"},
		"an item that is there twice":      {"int a;\n", "int a;\nint a;\n", "p a\n"},
		"one of two goes":                  {"int a;\nint a;\n", "int a;\n", "p a\n"},
		"a condition":                      {"#if A\nint a;\n#endif\n", "#if B\nint a;\n#endif\n", "p a\np a\n"},
		"no condition any more":            {"#ifdef A\nint a;\n#endif\n", "int a;\n", "p a\np a\n"},
		"the other branch":                 {"#if A\nint a;\n#else\n#endif\n", "#if A\n#else\nint a;\n#endif\n", "p a\np a\n"},
		"another branch's condition":       {"#if A\n#elif B\nint a;\n#endif\n", "#if A\n#elif C\nint a;\n#endif\n", "p a\np a\n"},
		"a condition around a macro":       {"#if A\n#define M 1\n#endif\n", "#if B\n#define M 1\n#endif\n", "m M\nm M\n"},
		"a condition inside of a body":     {"int f(void) {\n#if A\na();\n#endif\n}", "int f(void) {\n#if B\na();\n#endif\n}", "f f\nf f\n"},
		"the end of a condition in a body": {"int f(void) {\n#if A\na();\n#endif\nb();\n}", "int f(void) {\n#if A\na();\nb();\n#endif\n}", "f f\nf f\n"},
		"a macro inside of a body":         {"int f(void) {\n#define M 1\n}", "int f(void) {\n#define M 2\n}", "m M\nm M\n"},
		"an #undef inside of a body":       {"int f(void) {\n}", "int f(void) {\n#undef M\n}", ""},
		"the end of a nested condition":    {"#if A\n#if B\n#endif\nint a;\n#endif\n", "#if A\n#if B\nint a;\n#endif\n#endif\n", "p a\np a\n"},
	} {
		old, _ := splitItems(c.old)
		new, _ := splitItems(c.new)
		if got := formatItems(differingItems(old, new)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNamesInAText(t *testing.T) {
	var got []string
	if eachWord("a_1(9x, 0xff)->b;Z", func(w string) bool { got = append(got, w); return false }) {
		t.Error("it ended though no call said so")
	}
	if want := []string{"a_1", "b", "Z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	got = nil
	if !eachWord("a b c", func(w string) bool { got = append(got, w); return w == "b" }) || len(got) != 2 {
		t.Errorf("not ended at the second: %q", got)
	}
	for line, want := range map[string]bool{"x = leaf;": true, "leaf": true, "leaf1": false, "a_leaf": false, "": false, "9leaf": false} {
		if hasWord(line, "leaf") != want {
			t.Errorf("%q", line)
		}
	}
}

// Changed lines are looked at first, as far as the file has them.
func TestLineIsOneThatThePatchChanges(t *testing.T) {
	w := &Work{Dir: t.TempDir()}
	writeFiles(t, w.Dir, map[string]string{"tree/mm/a.c": "int leaf;\nint b;\n\tleaf = 1;\n\tleaf = 2;\nleaf"})
	for _, c := range []struct {
		path    string
		changed []int
		want    int
	}{
		{"mm/a.c", []int{4}, 4}, {"mm/a.c", []int{2, 3}, 3}, {"mm/a.c", []int{5}, 5}, {"mm/a.c", []int{0, 6, 100}, 1}, {"mm/a.c", nil, 1}, {"mm/b.c", []int{4}, 1},
	} {
		w.parts = []part{{path: c.path, changed: c.changed}}
		if got := w.Line("mm/a.c", "leaf"); got != c.want {
			t.Errorf("%s %v: line %d, want %d", c.path, c.changed, got, c.want)
		}
	}
	if got := w.Line("mm/gone.c", "leaf"); got != 0 {
		t.Errorf("a file that is not there: line %d", got)
	}
}

// The numbers of a hunk's head: how many there may be, and none below zero.
func TestNumbersOfAHunk(t *testing.T) {
	for text, want := range map[string]string{"3": "3 1 true", "3,4": "3 4 true", "0,0": "0 0 true", "3,0": "3 0 true", "-1": "0 0 false", "x": "0 0 false", "": "0 0 false",
		"3,x": "3 0 false", "3,-1": "3 -1 false", "3,4194303": "3 4194303 true", "3,4194304": "3 4194304 false", "3,": "3 0 false"} {
		first, count, ok := parseSpan(text)
		if got := fmt.Sprint(first, count, ok); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
