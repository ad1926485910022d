// SPDX-License-Identifier: MIT

//go:build linux

package rely

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commonC is before each test's code, on its own lines.
const commonC = `struct lock { int held; };
struct done { int set; struct lock l; };
struct part { struct lock l; int n; };
struct dev { struct lock l; struct part p; void *data; void *buf; struct dev *next; void (*end)(struct dev *); int flags; };
void lock_init(struct lock *);
void take(struct lock *);
void drop(struct lock *);
void wait_for(struct done *);
void *kmalloc(unsigned long);
void kfree(const void *);
void dev_get(struct dev *);
void dev_put(struct dev *);
void seen(int);
extern struct dev *first;
static inline void done_init(struct done *d) { d->set = 0; lock_init(&d->l); }
static inline void set_data(struct dev *d, void *data) { d->data = data; }
static inline void *get_data(struct dev *d) { return d->data; }
`

// sidesOf compiles two versions of a file.
func sidesOf(t *testing.T, common, before, after string) (was, is Side) {
	t.Helper()
	var out [2]Side
	for i, text := range []string{before, after} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.c"), []byte(common+text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("gcc", "-O2", "-S", Flag, "-o", "x.s", "x.c")
		cmd.Dir = dir
		if says, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, says, text)
		}
		list, err := filepath.Glob(filepath.Join(dir, "*"+Suffix))
		if err != nil || len(list) != 1 {
			t.Fatalf("the compiler wrote %q, %v", list, err)
		}
		dump, err := os.ReadFile(list[0])
		if err != nil {
			t.Fatal(err)
		}
		out[i] = Side{Dumps: []string{string(dump)}, Text: map[string]string{"x.c": common + text}, Global: map[string]bool{}}
		for _, l := range strings.Split(text, "\n") {
			if name, _, ok := strings.Cut(l, "("); ok && !strings.HasPrefix(l, "static") && !strings.HasPrefix(l, "\t") {
				out[i].Global[name[strings.LastIndexAny(name, " *")+1:]] = true
			}
		}
	}
	return out[0], out[1]
}

var hazardous = []patched{
	{"a lock that one function initializes and another takes", `
void probe(struct dev *d)
{
+	lock_init(&d->l);
	seen(1);
}
void work(struct dev *d)
{
+	take(&d->l);
	seen(2);
+	drop(&d->l);
}
`, "work relies on struct dev.l, which probe sets up only with the patch"},
	{"a lock of a part, by two names", `
void probe(struct dev *d)
{
+	struct part *p = &d->p;
+	lock_init(&p->l);
	seen(1);
}
void work(struct dev *d)
{
+	take(&d->p.l);
	seen(2);
}
`, "work relies on struct dev.p.l, which probe sets up"},
	{"an object that an inline function initializes", `
void probe(struct dev *d)
{
+	struct done *n = kmalloc(8);
+	done_init(n);
+	set_data(d, n);
	seen(1);
}
void end(struct dev *d)
{
+	wait_for(get_data(d));
	seen(2);
}
`, "end relies on struct dev.data, which probe sets up"},
	{"an object that is known by its type alone", `
void probe(struct done *n)
{
+	done_init(n);
	seen(1);
}
void end(struct done *n)
{
+	wait_for(n);
	seen(2);
}
`, "end relies on a struct done, which probe sets up"},
	{"a member that is in use, and gets another value", `
void probe(struct dev *d)
{
-	d->flags = 1;
+	d->flags = 3;
}
int work(struct dev *d)
{
+	if (d->flags & 2)
+		return *(int *)d->data;
	return d->flags;
}
`, "work relies on struct dev.flags, which probe sets up"},
	{"a callback that another function hands out", `
+static void end(struct dev *d)
+{
+	take(&d->l);
+}
void probe(struct dev *d)
{
+	lock_init(&d->l);
	seen(1);
}
void open(struct dev *d)
{
+	d->end = end;
	seen(1);
}
`, "end relies on struct dev.l, which probe sets up"},
	{"a member that is set to zero", `
void probe(struct dev *d)
{
+	d->flags = 0;
	seen(1);
}
void work(struct dev *d)
{
+	if (d->flags < 3)
		seen(2);
}
`, "work relies on struct dev.flags, which probe sets up"},
	{"a variable that is set once", `
+static struct lock *all;
void start(void)
{
+	all = kmalloc(4);
	seen(1);
}
void work(void)
{
+	take(all);
	seen(2);
}
`, "work relies on the variable all, which start sets up"},
	{"a reference that is taken and given back", `
void open(struct dev *d)
{
+	dev_get(d);
	seen(1);
}
void close(struct dev *d)
{
	seen(2);
+	dev_put(d);
}
`, "close relies on a reference to a struct dev, which open sets up"},
	{"a reference that is given back twice", `
void open(struct dev *d)
{
+	dev_get(d);
	dev_get(d);
}
void close(struct dev *d)
{
	dev_put(d);
+	dev_put(d);
}
`, "close relies on a reference to a struct dev, which open sets up"},
	{"memory that another function frees", `
+static void end(struct dev *d)
+{
+	kfree(d->buf);
+}
void probe(struct dev *d)
{
+	d->end = end;
	d->buf = kmalloc(3);
}
void leave(struct dev *d)
{
	seen(3);
-	kfree(d->buf);
}
`, "end gives back what struct dev.buf points to, and leave no longer does"},
	{"one function that begins and ends", `
int event(struct dev *d, int what)
{
	switch (what) {
	case 1:
+		lock_init(&d->l);
		seen(1);
		break;
	case 2:
+		take(&d->l);
		seen(2);
	}
	return 0;
}
`, "event relies on struct dev.l, which event sets up"},
	{"one function that sets up under a condition", `
void event(struct dev *d, int new)
{
+	if (new)
+		lock_init(&d->l);
+	take(&d->l);
	seen(1);
}
`, "event relies on struct dev.l, which event sets up"},
	{"what a new function sets up for its caller", `
+static void setup_one(struct dev *d) { d->buf = kmalloc(3); }
void probe(struct dev *d)
{
	seen(1);
+	setup_one(d);
}
char work(struct dev *d)
{
+	return *(char *)d->buf;
-	return 0;
}
`, "work relies on struct dev.buf, which probe sets up"},
	{"an unchanged function that is now called", `
static void setup_one(struct dev *d) { d->buf = kmalloc(3); }
void other(struct dev *d)
{
	setup_one(d);
}
void probe(struct dev *d)
{
+	setup_one(d);
	seen(1);
}
char work(struct dev *d)
{
+	return *(char *)d->buf;
-	return 0;
}
`, "work relies on struct dev.buf, which probe sets up"},
	{"a macro whose users' text stays", `
-#define BEGIN(d) seen(1)
-#define USE(d) seen(2)
+#define BEGIN(d) lock_init(&(d)->l)
+#define USE(d) take(&(d)->l)
void probe(struct dev *d)
{
	BEGIN(d);
}
void work(struct dev *d)
{
	USE(d);
}
`, "work relies on struct dev.l, which probe sets up"},
	{"what the patch removes, after a revert", `
void probe(struct dev *d)
{
-	d->buf = kmalloc(3);
	seen(1);
}
char work(struct dev *d)
{
-	return *(char *)d->buf;
+	return 0;
}
`, "after a revert work relies on struct dev.buf, which probe sets up only without the patch"},
	{"assembly that counts", `
void probe(struct dev *d)
{
+	d->flags = 1;
	seen(1);
}
void work(struct dev *d)
{
+	__asm__ volatile("lock\n\t"
+		"decl %0" : "+m"(d->flags));
	seen(2);
}
`, "work relies on struct dev.flags, which probe sets up"},
}

func TestHazards(t *testing.T) {
	for _, c := range append(hazardous, harmless...) {
		before, after := c.sides()
		was, is := sidesOf(t, commonC, before, after)
		list, _ := Compare(was, is, nil)
		var says []string
		for _, h := range list {
			says = append(says, h.String())
		}
		text := strings.Join(says, "\n")
		if c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
		for _, h := range list {
			if h.File != "x.c" || h.Line == 0 {
				t.Errorf("%s: %s:%d", c.name, h.File, h.Line)
			}
		}
	}
}

// What a function does that the compiler does not tell of cannot be known.
func TestFunctionsThatAreNotTold(t *testing.T) {
	was, is := sidesOf(t, commonC, "void work(void) { }\n", "void work(struct dev *d)\n{\n\ttake(&d->l);\n}\n")
	if _, list := Compare(was, is, []string{"work", "work.isra.0", "gone.part.0"}); len(list) != 1 || list[0] != "gone.part.0" {
		t.Errorf("%q", list)
	}
}

// Static functions of two files may have one name, and each calls its own.
func TestFunctionsOfOneNameInTwoFiles(t *testing.T) {
	one := Side{Dumps: []string{
		"\nset (struct dev * d)\n{\n  __BB(2):\n  [a.c:3:2] d_1(D)->n = 1;\n  return;\n\n}\n\nprobe (struct dev * d)\n{\n  __BB(2):\n  [a.c:7:2] set (d_1(D));\n  return;\n\n}\n",
		"\nset (struct dev * d)\n{\n  __BB(2):\n  [b.c:3:2] d_1(D)->m = 1;\n  return;\n\n}\n\nopen (struct dev * d)\n{\n  __BB(2):\n  [b.c:7:2] set (d_1(D));\n  return;\n\n}\n",
	}}
	v := one.read()
	for name, member := range map[string]string{"probe": "n", "open": "m"} {
		want := place{"struct dev", member}
		if !v.does(name, need{"it " + member, func(s *step) bool { return overlapsOne(want, s.sets) }}) ||
			v.does(name, need{"another " + member, func(s *step) bool { return len(s.sets) > 0 && !overlapsOne(want, s.sets) }}) {
			t.Errorf("%s sets something else than %v", name, want)
		}
	}
}
