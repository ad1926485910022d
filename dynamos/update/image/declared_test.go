// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
struct none { }; int empties(struct none e, int n) { return n; }
typedef const double named; int takes(double d) { return d; } int names(int n, named d) { return d + n; }
int seven(int a, int b, int c, int d, int e, int f, int g) { return a + b + c + d + e + f + g; }
int pairs(struct two a, struct two b, struct two c) { return a.a + b.a + c.a; }
int over(struct two a, struct two b, struct two c, int d) { return a.a + b.a + c.a + d; }
struct two both(void) { return (struct two){1, 2}; }
enum kind which(void) { return FIRST; }
unsigned long whole(void) { return 1; }
struct nine { char text[9]; } nines(void) { return (struct nine){"x"}; }
int deep(int ****************p, int *****************more, const int ***************c, volatile int ***************v, const int ****************far, volatile int ****************off) { return !p + !more + !c + !v + !far + !off; }
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
	"names":   {Text: "int names(int n, named d)", Args: 1, Result: "int", Uncounted: "takes a named in memory"},
	"empties": {Text: "int empties(struct none e, int n)", Args: 1, Result: "int"},
	"seven":   {Text: "int seven(int a, int b, int c, int d, int e, int f, int g)", Args: 7, Result: "int", Uncounted: "takes more arguments than the six in registers"},
	"pairs":   {Text: "int pairs(struct two a, struct two b, struct two c)", Args: 6, Result: "int"},
	"over":    {Text: "int over(struct two a, struct two b, struct two c, int d)", Args: 7, Result: "int", Uncounted: "takes more arguments than the six in registers"},
	"both":    {Text: "struct two both()", Result: "value", Uncounted: "gives back a struct two, which takes more than one register"},
	"deep":    {Text: "int deep(int" + stars(16) + " p, ?" + stars(17) + " more, const int" + stars(15) + " c, int" + stars(15) + " v, const ?" + stars(16) + " far, ?" + stars(16) + " off)", Args: 6, Result: "int"},
	"nines":   {Text: "struct nine nines()", Result: "value", Uncounted: "gives back a struct nine, which takes more than one register"},
	"whole":   {Text: "long unsigned int whole()", Result: "value"},
	"which":   {Text: "enum kind which()", Result: "value"},
}

func stars(n int) string { return strings.Repeat(" *", n) }

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

// plainObject compiles a file with two functions, and returns its object.
func plainObject(t *testing.T) []byte {
	t.Helper()
	text, object := filepath.Join(t.TempDir(), "a.c"), filepath.Join(t.TempDir(), "a.o")
	if err := os.WriteFile(text, []byte("int f(char c) { return c; }\nint g(char c) { return c + 1; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-gdwarf-5", "-fno-var-tracking", "-c", "-o", object, text).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readBytes reads what the functions of an object are from its bytes.
func readBytes(t *testing.T, object []byte) (*Declared, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.o")
	if err := os.WriteFile(path, object, 0o644); err != nil {
		t.Fatal(err)
	}
	return ReadDeclared(path)
}

// findEntry returns the last entry with a tag, and where the bytes of its type's place are.
func findEntry(t *testing.T, f *elf.File, tag dwarf.Tag) (e *dwarf.Entry, at int) {
	t.Helper()
	data, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Section(".debug_info").Data()
	if err != nil {
		t.Fatal(err)
	}
	for r := data.Reader(); ; {
		next, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if next == nil {
			break
		}
		if next.Tag == tag {
			e = next
		}
	}
	of := binary.LittleEndian.AppendUint32(nil, uint32(e.Val(dwarf.AttrType).(dwarf.Offset)))
	return e, int(e.Offset) + bytes.Index(info[e.Offset:], of)
}

// What is damaged is an error, and never half of the functions.
func TestDeclaredOfDamagedObject(t *testing.T) {
	object := plainObject(t)
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	info := f.Section(".debug_info").Offset
	if d, err := readBytes(t, object); err != nil || len(d.Own) != 2 {
		t.Fatal(d, err)
	}
	for _, tag := range []dwarf.Tag{dwarf.TagSubprogram, dwarf.TagFormalParameter} {
		e, at := findEntry(t, f, tag)
		unknown, astray := slices.Clone(object), slices.Clone(object)
		unknown[info+uint64(e.Offset)] = 0x7f // of which the table of abbreviations knows nothing
		binary.LittleEndian.PutUint32(astray[info+uint64(at):], 0xffffff)
		for what, damaged := range map[string][]byte{"an unknown entry": unknown, "a type that is nowhere": astray} {
			if d, err := readBytes(t, damaged); err == nil {
				t.Errorf("%s, %v: %+v", what, tag, d)
			}
		}
	}
}

// A file's last function may be the end of its unit.
func TestDeclaredUpToTheEnd(t *testing.T) {
	object := plainObject(t)
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	section := slices.IndexFunc(f.Sections, func(s *elf.Section) bool { return s.Name == ".debug_info" })
	end := f.Sections[section].FileSize - 2 // without what ends the lists of the function and of the unit
	info := f.Sections[section].Offset
	binary.LittleEndian.PutUint32(object[info:], uint32(end-4))
	header := binary.LittleEndian.Uint64(object[40:]) + 64*uint64(section)
	binary.LittleEndian.PutUint64(object[header+32:], end)
	if d, err := readBytes(t, object); err != nil || d.Own["f"].Text != "int f(char c)" || len(d.Own) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

// No file stays open.
func TestDeclaredLeavesNothingOpen(t *testing.T) {
	object := plainObject(t)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := count()
	for range 20 {
		if _, err := readBytes(t, object); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n > before+5 {
		t.Errorf("%d files are open, %d were", n, before)
	}
}
