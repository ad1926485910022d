// SPDX-License-Identifier: MIT

package image

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const declaredSource = `
typedef long ssize_t; typedef _Bool bool; typedef int (*callback)(void *);
struct two { long a, b; }; struct three { long a, b, c; }; union one { int a; char b; }; enum kind { FIRST };
long elsewhere(int n); void *formats(const char *format, ...);
void nothing(void) { elsewhere(1); formats("x"); }
ssize_t reads(const struct two *of, char *const to, volatile unsigned long *at, callback f) { return elsewhere(f(to) + of->a + *at); }
static __attribute__((noinline)) int kept(struct two by, union one u, enum kind k, bool yes) { return by.a + u.a + k + yes; }
static inline bool within(struct three *t) { return t->a; }
bool asks(struct three *t, struct two by) { return within(t) && kept(by, (union one){1}, FIRST, 1); }
struct two *pointer(int n, ...) { return n ? 0 : (struct two *)8; }
unsigned int plain(unsigned char a, short b, int list[3], __int128 wide) { return a + b + list[0] + wide; }
int big(struct three by) { return by.a; }
double real(int n) { return n; }
int takes(double d) { return d; }
int seven(int a, int b, int c, int d, int e, int f, int g) { return a + b + c + d + e + f + g; }
int pairs(struct two a, struct two b, struct two c) { return a.a + b.a + c.a; }
int over(struct two a, struct two b, struct two c, int d) { return a.a + b.a + c.a + d; }
struct two both(void) { return (struct two){1, 2}; }
enum kind which(void) { return FIRST; }
`

var declaredWant = map[string]Prototype{
	"nothing": {Text: "void nothing()", Result: "void"},
	"reads":   {Text: "ssize_t reads(const struct two * of, const char * to, long unsigned int * at, callback f)", Args: 4, Result: "long"},
	"kept":    {Text: "int kept(struct two by, union one u, enum kind k, bool yes)", Args: 5, Result: "int"},
	"within":  {Text: "bool within(struct three * t)", Args: 1, Result: "value"},
	"asks":    {Text: "bool asks(struct three * t, struct two by)", Args: 3, Result: "value"},
	"pointer": {Text: "struct two * pointer(int n, ...)", Args: 1, Result: "pointer", Uncounted: "takes a variable number of arguments"},
	"plain":   {Text: "unsigned int plain(unsigned char a, short int b, int * list, __int128 wide)", Args: 5, Result: "value"},
	"big":     {Text: "int big(struct three by)", Args: 3, Result: "int", Uncounted: "takes a struct three in memory"},
	"real":    {Text: "double real(int n)", Args: 1, Uncounted: "gives back a double, which takes more than one register"},
	"takes":   {Text: "int takes(double d)", Result: "int", Uncounted: "takes a double in memory"},
	"seven":   {Text: "int seven(int a, int b, int c, int d, int e, int f, int g)", Args: 7, Result: "int", Uncounted: "takes more arguments than the six in registers"},
	"pairs":   {Text: "int pairs(struct two a, struct two b, struct two c)", Args: 6, Result: "int"},
	"over":    {Text: "int over(struct two a, struct two b, struct two c, int d)", Args: 7, Result: "int", Uncounted: "takes more arguments than the six in registers"},
	"both":    {Text: "struct two both()", Result: "value", Uncounted: "gives back a struct two, which takes more than one register"},
	"which":   {Text: "enum kind which()", Result: "value"},
}

// calledWant are the functions of other files.
var calledWant = map[string]Prototype{
	"elsewhere": {Text: "long int elsewhere(int)", Args: 1, Result: "long"},
	"formats":   {Text: "void * formats(const char *, ...)", Args: 1, Result: "pointer", Uncounted: "takes a variable number of arguments"},
}

// What the compiler tells of a file's functions is what the kernel's types would say of them.
func TestDeclaredPrototypes(t *testing.T) {
	dir := t.TempDir()
	text, object := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.o")
	if err := os.WriteFile(text, []byte(declaredSource), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, option := range []string{"-O0", "-O2"} {
		if out, err := exec.Command("gcc", option, "-gdwarf-5", "-fno-eliminate-unused-debug-types", "-fno-var-tracking", "-c", "-o", object, text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		list, err := ReadDeclared(object)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range declaredWant {
			if got := list.Own[name]; got != want {
				t.Errorf("%s: got %+v, want %+v", option, got, want)
			}
		}
		if option == "-O2" && !maps.Equal(list.Called, calledWant) { // without -O only definitions are described
			t.Errorf("called: %+v, want %+v", list.Called, calledWant)
		}
		if len(list.Own) != len(declaredWant) {
			t.Errorf("%s: %d functions, want %d: %+v", option, len(list.Own), len(declaredWant), list.Own)
		}
	}
	if _, err := ReadDeclared(text); err == nil {
		t.Error("a text was read as an object")
	}
}

// A function of the file is another one than the one that others declare.
func TestDeclaredOfFileFirst(t *testing.T) {
	d := Declared{Own: map[string]Prototype{"f": {Args: 1}}, Called: map[string]Prototype{"f": {Args: 2}, "g": {Args: 3, Uncounted: variable}}}
	for name, want := range map[string]int{"f": 1, "g": 3} {
		if p, ok := d.Of(name); !ok || p.Args != want || p.IsVariadic() != (name == "g") {
			t.Errorf("%s: %+v, %v", name, p, ok)
		}
	}
	if _, ok := d.Of("h"); ok {
		t.Error("an unknown function is described")
	}
}
