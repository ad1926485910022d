// SPDX-License-Identifier: MIT

package asm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// head is what the kernel's headers give the tests: a WARN that puts its line
// into a table, and attributes.
const head = `
typedef unsigned long ulong;
extern void seen(const char *, ...);
extern void lock_it(int *), unlock_it(int *);
#define noinline __attribute__((noinline))
#define __init __attribute__((section(".init.text"), cold))
#define notrace __attribute__((no_instrument_function))
#define STR2(x) #x
#define STR(x) STR2(x)
#define WARN() asm volatile("1: .byte 0x0f, 0x0b\n.pushsection __bug_table, \"aw\"\n" \
	"2: .long 1b - .\n .word %c0\t# bug_entry::line\n .word 3\n .org 2b+8\n.popsection" :: "i" (__LINE__))
#define KEY(key) ({ int r = 0; asm goto("1: .byte 0x0f,0x1f,0x44,0x00,0x00\n.pushsection __jump_table, \"aw\"\n" \
	".balign 8\n .long 1b - ., %l[yes] - .\n .quad %c0 - .\n.popsection" :: "i" (&key) :: yes); \
	if (0) { yes: r = 1; } r; })
#define EXPORT(name) asm(".section \"___ksymtab+" #name "\", \"a\"\n.long " #name " - .\n.previous")
`

func compileSource(t *testing.T, name, src string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	c, s := filepath.Join(dir, "t.c"), filepath.Join(dir, "t.s")
	if err := os.WriteFile(c, []byte(head+src), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-S", "-O2", "-g0", "-fverbose-asm", "-ffunction-sections", "-fdata-sections", "-fno-pic",
		"-fno-common", "-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-fno-stack-protector", "-fno-jump-tables",
		"-pg", "-mfentry", "-mrecord-mcount", "-o", s, c}, more...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	text, err := os.ReadFile(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parseUnit(t *testing.T, text string) *Unit {
	t.Helper()
	u, err := Parse("t.c", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func compareTexts(t *testing.T, before, after string) (*Change, error) {
	t.Helper()
	return Compare(parseUnit(t, compileSource(t, "before", before)), parseUnit(t, compileSource(t, "after", after)))
}

func checkNames(t *testing.T, what string, got []string, names ...string) {
	t.Helper()
	if !slices.Equal(got, names) && len(got)+len(names) > 0 {
		t.Errorf("%s: got %v, want %v", what, got, names)
	}
}

// replaceText replaces one text of src, which must contain it.
func replaceText(t *testing.T, src, old, new string) string {
	t.Helper()
	if !strings.Contains(src, old) {
		t.Fatalf("the source has no %q", old)
	}
	return strings.Replace(src, old, new, 1)
}

const plain = `
int shared = 5;
static int hidden;
int f(int a) { WARN(); seen("f says %d", a); return a + shared; }
int g(int a) { WARN(); seen("g"); hidden++; return a * 3; }
static int table(int a) { switch (a) { case 0: return 7; case 1: return 9; case 2: return 4; case 3: return 77; case 4: return 1; } return 0; }
int h(int a) { return table(a) + hidden; }
`

func TestCompareSeesWhatChanges(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		changed        []string
	}{
		{"empty lines before a function", "int f(", "\n\n\n\nint f(", nil},
		{"empty lines inside a function", "{ WARN(); seen(\"g", "{\n\n WARN(); seen(\"g", nil},
		{"a function with a string is added before it", "int f(", "int f0(void) { seen(\"more\"); seen(\"f says %d\"); return 1; }\nint f(", nil},
		{"a constant in code", "a * 3", "a * 5", []string{"g"}},
		{"a string literal", "f says", "f tells", []string{"f"}},
		{"a constant that a switch returns", "return 77", "return 78", []string{"h"}},
		{"a call is added", "hidden++", "hidden++; seen(0)", []string{"g"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compareTexts(t, plain, replaceText(t, plain, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			checkNames(t, "changed", got.Changed, c.changed...)
			if got.IsEmpty() != (len(c.changed) == 0) {
				t.Errorf("None is %v", got.IsEmpty())
			}
		})
	}
}

func TestInlinedChangeSpreadsToCallers(t *testing.T) {
	src := `
static inline int twice(int a) { return a * 2; }
int f(int a) { return twice(a) + 1; }
int g(int a) { return twice(a) + 2; }
int h(int a) { return a; }
`
	got, err := compareTexts(t, src, replaceText(t, src, "a * 2", "a * 3"))
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "f", "g")
}

func TestCloneIsCarriedWithItsCallers(t *testing.T) {
	src := `
struct pair { int a, b; };
static noinline int sum(struct pair *p, int unused) { seen("sum"); return p->a + p->a; }
int f(struct pair *p) { return sum(p, 1) + 1; }
int g(struct pair *p) { return sum(p, 2) + 2; }
int h(int a) { return a; }
`
	text := compileSource(t, "before", src)
	if !strings.Contains(text, "sum.isra.0:") && !strings.Contains(text, "sum.constprop.0:") {
		t.Fatal("gcc makes no clone of sum")
	}
	got, err := compareTexts(t, src, replaceText(t, src, `seen("sum")`, `seen("total")`))
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "f", "g")
	if len(got.Clones) != 1 || !strings.HasPrefix(got.Clones[0], "sum.") {
		t.Errorf("clones: %v", got.Clones)
	}
}

// What the kernel declares inline is not traced, and where it is a function all
// the same its callers carry the change.
func TestUntracedIsCarriedWithItsCallers(t *testing.T) {
	src := `
static noinline notrace int inner(int a) { seen("inner"); return a * 3; }
int f(int a) { return inner(a) + 1; }
int g(int a) { return inner(a) + 2; }
int h(int a) { return a; }
`
	got, err := compareTexts(t, src, replaceText(t, src, `seen("inner")`, `seen("deep")`))
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "f", "g")
	checkNames(t, "clones", got.Clones, "inner")
	held := src + "int (*held)(int) = inner;\n"
	_, err = compareTexts(t, held, replaceText(t, held, `seen("inner")`, `seen("deep")`))
	var r *Refusal
	if !errors.As(err, &r) || r.Symbol != "inner" || !strings.Contains(r.Reason, "held holds its address") {
		t.Errorf("got %v", err)
	}
}

const locals = `
int f(int a) { static int count; count += a; seen("f"); return count; }
int g(int a) { static int count; count -= a; seen("g"); return count; }
`

// The number that gcc gives a static variable shifts with those above it; each
// must stay the kernel's variable that it was.
func TestShiftedStaticLocalIsFound(t *testing.T) {
	after := replaceText(t, locals, "count -= a", "count -= 2 * a") +
		"int e(int a) { static int count; static int more; count ^= more; more = a; seen(0); return count; }\n"
	got, err := compareTexts(t, locals, after)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "g")
	x := string(got.Extract("v").Text)
	old := localUses(got.Before, "g")
	new := localUses(got.After, "g")
	if len(old) != 1 || len(new) != 1 || old[0] == new[0] {
		t.Fatalf("the numbers did not shift: %v and %v", old, new)
	}
	if !strings.Contains(x, old[0]+".v(%rip)") || strings.Contains(x, new[0]) {
		t.Errorf("want %s and not %s in:\n%s", old[0], new[0], x)
	}
}

func TestRefusals(t *testing.T) {
	quiet := plain + "notrace int quiet(int a) { seen(\"quiet\"); return a; }\n"
	stop := plain + "__attribute__((noreturn)) void stop(int a) { for (;;) seen(\"stop\"); }\n"
	loose := plain + "asm(\".pushsection .init.data\\n .long 1\\n.popsection\");\n"
	data := plain + "struct ops { int (*f)(int); int n; }; struct ops ops = { f, 1 };\nstatic const int limits[4] = { 1, 2, 3, 4 }; const int *get(void) { return limits; }\n"
	for _, c := range []struct{ name, src, old, new, symbol, reason string }{
		{"another initial value of a pointer", data, "{ f, 1 }", "{ g, 1 }", "ops", "at the start"},
		{"another constant in a table", data, "{ 1, 2, 3, 4 }", "{ 1, 2, 3, 5 }", "limits", "at the start"},
		{"a structure becomes larger", data, "int n; }", "int n, m, k; }", "ops", "from 16 to 24 bytes"},
		{"another initial value of a static local variable", locals, "static int count; count +=", "static int count = 4; count +=", "count.", "at the start"},
		{"an __init function is called after the start", boots + "int both(int a) { seen(\"both\"); return a ? first(a) : step(a); }\n", "a + 1", "a + 2", "first", "freed after the kernel has booted"},
		{"a function becomes __init", plain, "int g(int a) { WARN();", "__init int g(int a) { ", "g", "needs a reboot"},
		{"a notrace function", quiet, `seen("quiet")`, `seen("still")`, "quiet", "notrace"},
		{"a noreturn function", stop, `seen("stop")`, `seen("halt")`, "stop", "does not return"},
		{"assembly outside of functions", loose, ".long 1", ".long 2", "", "outside of functions"},
		{"a second static local variable of the same name", locals, "count += a;", "count += a; if (a) { static int count = 9; count *= 7; seen(\"?\", count++); }", "count.", "had 1"},
		{"a variable in .init.data is added", plain, "int g(int a) {", "static int once __attribute__((section(\".init.data\"))) = 3;\nint g(int a) { once++;", "once", "section .init.data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compareTexts(t, c.src, replaceText(t, c.src, c.old, c.new))
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatalf("not refused: %v, %v", got, err)
			}
			if !strings.HasPrefix(r.Symbol, c.symbol) || c.symbol == "" && r.Symbol != "" || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

// boots has what is gone once the kernel runs, and what it shares with the rest.
const boots = `
#define __initdata __attribute__((section(".init.data")))
static inline int step(int a) { return a + 1; }
static int limits[2] __initdata = { 1, 2 };
static noinline notrace int once(int a) { return a * 9; }
__init int first(int a) { seen("first", limits[a]); return step(once(a)); }
int later(int a) { seen("later"); return step(a); }
`

func TestInitCodeIsNotInForce(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		changed, idle  []string
	}{
		{"an __init function", `seen("first"`, `seen("start"`, nil, []string{"first"}},
		{"an __initdata variable", "{ 1, 2 }", "{ 1, 3 }", nil, []string{"limits"}},
		{"an inline function that other code uses too", "a + 1", "a + 2", []string{"later"}, []string{"first"}},
		{"a function that only __init code calls", "a * 9", "a * 11", nil, []string{"once"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compareTexts(t, boots, replaceText(t, boots, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			checkNames(t, "changed", got.Changed, c.changed...)
			checkNames(t, "idle", got.Idle, c.idle...)
			if len(got.Clones) > 0 || got.IsEmpty() != (len(c.changed) == 0) {
				t.Errorf("clones %v, none %v", got.Clones, got.IsEmpty())
			}
		})
	}
}

func TestUnchangedFunctionIsLeftOut(t *testing.T) {
	const text = "static inline int step(int a) { return a + 1; }\nint later(int a) { seen(\"later\"); return step(a); }\n" +
		"int first(int a) { seen(\"first\"); return step(a); }\n"
	before, after := parseUnit(t, compileSource(t, "before", text)), parseUnit(t, compileSource(t, "after", replaceText(t, text, "a + 1", "a + 2")))
	c, err := View{Written: func(name string) bool { return name == "later" }}.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", c.Changed, "later")
	if len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0], "first does what it did") {
		t.Errorf("notes: %v", c.Notes)
	}
	c, err = View{Written: func(name string) bool { return name == "first" }}.Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", c.Changed, "first")
}

func TestLineNumbersAreNoChange(t *testing.T) {
	const text = "int first(int a) { return a; }\nint f(int a) { if (a) seen(\"at line %d\", __LINE__); return a + 7; }\n"
	kept := View{Kept: func(name string) bool { return name == "f" }}
	for _, c := range []struct {
		name, old, new string
		view           View
		changed        []string
	}{
		{"the lines above a function that the patch leaves", "return a; }\n", "return a + 5; }\n\n\n", kept, []string{"first"}},
		{"a function that the patch changes", "return a; }\n", "return a; }\n\n\n", View{Kept: func(string) bool { return false }}, []string{"f"}},
		{"the source of the function is not known", "return a; }\n", "return a; }\n\n\n", View{}, []string{"f"}},
		{"code differs as well as line numbers", "if (a)", "\nif (!a)", kept, []string{"f"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.view.Compare(parseUnit(t, compileSource(t, "before", text)), parseUnit(t, compileSource(t, "after", replaceText(t, text, c.old, c.new))))
			if err != nil {
				t.Fatal(err)
			}
			checkNames(t, "changed", got.Changed, c.changed...)
			noted := len(got.Notes) == 1 && strings.HasPrefix(got.Notes[0], "f differs only in line numbers")
			if noted != !slices.Contains(c.changed, "f") {
				t.Errorf("notes: %v", got.Notes)
			}
		})
	}
}

func TestFunctionThatCannotBeHookedIsCarriedWithItsCallers(t *testing.T) {
	const text = "static noinline int many(int a) { seen(\"many\"); return a + 1; }\nint one(int a) { seen(\"one\"); return many(a) * 2; }\nint other(int a) { seen(\"other\"); return a; }\n"
	few := View{Led: func(name string) bool { return name != "many" }}
	try := func(text string) (*Change, error) {
		return few.Compare(parseUnit(t, compileSource(t, "before", text)), parseUnit(t, compileSource(t, "after", replaceText(t, text, "a + 1", "a + 3"))))
	}
	c, err := try(text)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", c.Changed, "one")
	checkNames(t, "clones", c.Clones, "many")
	_, err = try(text + "int (*const held)(int) = many;\n")
	var r *Refusal
	if !errors.As(err, &r) || !strings.Contains(r.Reason, "held holds its address") {
		t.Errorf("got %v", err)
	}
	if c, err = try(replaceText(t, text, "static noinline int many", "noinline int many")); err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed, one that others call", c.Changed, "many")
}

func TestMovedStaticLocalIsRefused(t *testing.T) {
	after := replaceText(t, locals, "int g(int a) { static int count; count -= a;",
		"static noinline int moved(int a) { static int count; count -= a; seen(\"m\"); return count; }\nint g(int a) { int count = moved(a);")
	_, err := compareTexts(t, locals, after)
	var r *Refusal
	if !errors.As(err, &r) || !strings.Contains(r.Reason, "cannot be told") {
		t.Errorf("got %v", err)
	}
}

func TestNewSymbolsAreIncluded(t *testing.T) {
	after := replaceText(t, plain, "int g(int a) { WARN();", `
static int fresh[3] = { 1, 2, 3 };
static noinline int helper(int a) { fresh[a]++; seen("helper %d", fresh[0]); return a; }
int apart(void) { seen("nobody calls this"); return 1; }
EXPORT(apart);
int g(int a) { static int turns; turns++; WARN(); a = helper(a);`)
	got, err := compareTexts(t, plain, after)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "g")
	checkNames(t, "new", got.New, "helper")
	if len(got.Data) != 2 || got.Data[0] != "fresh" || !strings.HasPrefix(got.Data[1], "turns.") {
		t.Errorf("data: %v", got.Data)
	}
	if class, why := ProposeClass([]*Change{got}); class != Together {
		t.Errorf("class %s, %v", class, why)
	}
}

func TestProposedClass(t *testing.T) {
	src := `
int lock, n;
int f(int a) { lock_it(&lock); n += a; unlock_it(&lock); return n; }
int g(int a) { n = a; return n; }
int put(int a) { __sync_fetch_and_add(&n, a); return 0; }
`
	for _, c := range []struct {
		name, old, new string
		class          Class
		why            string
	}{
		{"one function without locks", "n = a", "n = a + 1", Any, "one function"},
		{"a lock is added", "n = a;", "lock_it(&lock); n = a; unlock_it(&lock);", Together, "now calls lock_it"},
		{"a lock is removed", "lock_it(&lock); n += a;", "n += a;", Together, "no longer calls lock_it"},
		{"an atomic operation is added", "n = a;", "__sync_fetch_and_add(&n, a);", Together, "now calls atomic "},
		{"a read of a program's memory is added", "n = a;", "extern int __get_user_8(void); n = __get_user_8();", Any, "one function"},
		{"a message that is printed once is added", "n = a;", "static char __attribute__((section(\".data.once\"))) said; if (!said) { said = 1; seen(\"once\"); } n = a;", Any, "one function"},
		{"a static local variable is added", "n = a;", "static int sum; sum += a; n = sum;", Together, "new variables"},
		{"two functions change", "n += a; unlock_it(&lock); return n; }\nint g(int a) { n = a;", "n -= a; unlock_it(&lock); return n; }\nint g(int a) { n = -a;", Together, "2 functions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compareTexts(t, src, replaceText(t, src, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			class, why := ProposeClass([]*Change{got})
			if class != c.class || !strings.Contains(strings.Join(why, "; "), c.why) {
				t.Errorf("%s, %v", class, why)
			}
		})
	}
}

// What holds beyond a call keeps its order, its conditions and its arguments in
// class any. In none of the changes to "together" but the last does the number
// of calls change.
func TestProposedClassComparesOrderConditionsAndArguments(t *testing.T) {
	src := `
struct box { int lock, other, state, on; struct box *next; };
extern void mutex_lock(int *), mutex_unlock(int *), kfree(void *), use(struct box *), get_box(struct box *), put_box(struct box *);
extern void *kmalloc(ulong size, unsigned flags);
extern int seen_by(struct box *);
int f(struct box *b, int a) { mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock); return a; }
int two(struct box *b) { mutex_lock(&b->lock); mutex_lock(&b->other); b->state++; mutex_unlock(&b->other); mutex_unlock(&b->lock); return 0; }
void drop(struct box *b) { use(b->next); kfree(b->next); seen("d"); }
int look(struct box *b) { int s = b->next->state; kfree(b->next); return s; }
int hold(struct box *b, int a) { get_box(b); seen("h"); return a; }
void *make(int a) { void *p = kmalloc(64, 3); seen("m"); return p; }
int count(struct box *b) { __sync_fetch_and_add(&b->state, 1); seen("c"); return 0; }
static noinline void bump(struct box *b) { mutex_lock(&b->lock); b->state++; mutex_unlock(&b->lock); }
static noinline void pump(struct box *b) { mutex_lock(&b->other); b->state--; mutex_unlock(&b->other); }
void keep(struct box *b) { bump(b); pump(b); seen("k"); }
int many(struct box *b, int a) { mutex_lock(&b->lock); if (a > 4) { mutex_unlock(&b->lock); seen("b"); return -1; } b->state = a; mutex_unlock(&b->lock); return 0; }
`
	for _, c := range []struct{ name, old, new, why string }{
		{"a lock made conditional", "mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock);", "int on = b->on; if (on) mutex_lock(&b->lock); b->state = a; if (on) mutex_unlock(&b->lock);",
			"f: the write to argument 0+8 may now come after the function's start"},
		{"a condition of a lock taken away", "get_box(b); seen(\"h\")", "if (a) get_box(b); seen(\"h\")", "hold: its return may now come right after the function's start"},
		{"another lock", "mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock);", "mutex_lock(&b->other); b->state = a; mutex_unlock(&b->other);",
			"f: mutex_lock(argument 0+4) may now come right after the function's start"},
		{"unlock before the write", "b->state = a; mutex_unlock(&b->lock);", "mutex_unlock(&b->lock); b->state = a;", "f: the write to argument 0+8 may now come after mutex_unlock(argument 0)"},
		{"locks in another order", "mutex_lock(&b->lock); mutex_lock(&b->other);", "mutex_lock(&b->other); mutex_lock(&b->lock);", "two: mutex_lock(argument 0) may now come right after mutex_lock(argument 0+4)"},
		{"kfree before use", "use(b->next); kfree(b->next);", "kfree(b->next); use(b->next);", "drop: use() may now come after kfree(*(argument 0+16))"},
		{"kfree before a read", "int s = b->next->state; kfree(b->next);", "kfree(b->next); int s = b->next->state;", "look: the read of *(argument 0+16)+8 may now come after kfree("},
		{"another size", "kmalloc(64, 3)", "kmalloc(96, 3)", "make: kmalloc(96, 3) may now come right after"},
		{"other flags", "kmalloc(64, 3)", "kmalloc(64, 2)", "make: kmalloc(64, 2) may now come right after"},
		{"another counter", "__sync_fetch_and_add(&b->state, 1)", "__sync_fetch_and_add(&b->on, 1)", "count: atomic "},
		{"locks of functions of the file in another order", "bump(b); pump(b);", "pump(b); bump(b);", "keep: pump(argument 0) may now come right after the function's start"},
		{"the lock's end is missing on one way", "if (a > 4) { mutex_unlock(&b->lock); seen", "if (a > 4) { seen", "many: its return may now come right after mutex_lock(argument 0)"},

		{"a check before the lock", "{ mutex_lock(&b->lock); b->state = a;", "{ if (a < 0) return -22; mutex_lock(&b->lock); b->state = a;", ""},
		{"a check that unlocks once more", "b->state = a; mutex_unlock(&b->lock); return 0;", "if (a == 2) { mutex_unlock(&b->lock); seen(\"x\"); return -2; } b->state = a; mutex_unlock(&b->lock); return 0;", ""},
		{"a message more", "mutex_unlock(&b->lock); return a;", "mutex_unlock(&b->lock); _printk(); return a;", ""},
		{"another value below the lock", "b->state = a; mutex_unlock(&b->lock); return a;", "b->state = a + 1; mutex_unlock(&b->lock); return a;", ""},
		{"a write more below the lock", "b->state = a; mutex_unlock(&b->lock); return a;", "b->state = a; b->on = 1; mutex_unlock(&b->lock); return a;", ""},
		{"a check before an allocation whose arguments stay", "void *p = kmalloc(64, 3);", "if (a > 3) seen(\"big\"); void *p = kmalloc(64, 3);", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const printk = "extern int _printk(void);\n"
			got, err := compareTexts(t, printk+src, printk+replaceText(t, src, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			got.Arguments = func(name string) int {
				if name == "kmalloc" {
					return 2
				}
				return -1
			}
			class, why := ProposeClass([]*Change{got})
			if want := map[bool]Class{true: Any, false: Together}[c.why == ""]; class != want || !strings.Contains(strings.Join(why, "; "), c.why) {
				t.Errorf("%s, %v, want %q", class, why, c.why)
			}
		})
	}
}
