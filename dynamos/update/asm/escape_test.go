// SPDX-License-Identifier: MIT

package asm

import (
	"slices"
	"strings"
	"testing"
)

// kernelWords are what sources of kinds use.
const kernelWords = `
#define NULL ((void *)0)
struct wait { void *next; int (*func)(struct wait *, unsigned); };
struct rcu { struct rcu *next; void (*func)(struct rcu *); };
struct timer { void (*function)(struct timer *); };
struct work { void (*func)(struct work *); };
struct hrtimer { int (*function)(struct hrtimer *); };
struct ops { int (*open)(void *); const char *name; };
struct file { const struct ops *ops; struct wait *head; };
struct sock { void (*ready)(struct sock *); const char *msg; };
extern void add_wait_queue(void *, struct wait *), call_rcu(struct rcu *, void (*)(struct rcu *));
extern void call_rcu_tasks(struct rcu *, void (*)(struct rcu *)), prepare_to_wait(void *, struct wait *, int);
extern void *kmemdup(const void *, ulong, unsigned);
extern void call_srcu(void *, struct rcu *, void (*)(struct rcu *));
extern void init_timer_key(struct timer *, void (*)(struct timer *), unsigned, const char *, void *);
extern int queue_work_on(int, void *, struct work *), queue_delayed_work_on(int, void *, void *, unsigned long);
extern int request_threaded_irq(unsigned, int (*)(int, void *), void *, unsigned long, const char *, void *);
extern void *kthread_create_on_node(int (*)(void *), void *, int, const char *, ...);
extern void sort(void *, ulong, ulong, int (*)(const void *, const void *), void *);
extern int _printk(const char *, ...), strange(const void *);
extern int notifier_chain_register(void *, void *);
extern void tells(void *, const char *, ...);
extern void mutex_lock(void *), mutex_unlock(void *);
`

// A pointer that outlives its call is the kernel's, or its update is held.
func TestPointersThatOutliveACall(t *testing.T) {
	for _, c := range []struct {
		name, source, old, new string
		escapes                []string // each in one escape; none: it can be unloaded
		text, not              string   // of the extract
	}{
		{"a changed function in a wait queue", "int woken(struct wait *w, unsigned m) { seen(\"w\"); return m; }\nvoid queue(struct file *f, struct wait *w) { w->func = woken; seen(\"q\"); add_wait_queue(f, w); }\n",
			`seen("w"); return m; }` + "\n" + `void queue(struct file *f, struct wait *w) {`, `seen("w"); return m + 1; }` + "\n" + `void queue(struct file *f, struct wait *w) { seen("check");`,
			nil, "$__kernel_own_woken", "$woken"},
		{"a new function in a wait queue", "void queue(struct file *f, struct wait *w) { seen(\"q\"); add_wait_queue(f, w); }\n",
			"void queue(", "static int woken(struct wait *w, unsigned m) { seen(\"w\"); return m; }\nvoid queue(struct file *f, struct wait *w) { w->func = woken; seen(\"q\"); add_wait_queue(f, w); }\nvoid unused(",
			[]string{"woken: in queue its address is written to memory that others see"}, "$woken", ownName},
		{"a new callback of RCU", "void drop(struct rcu *r) { seen(\"d\"); }\n", "void drop(struct rcu *r) { seen",
			"static void freed(struct rcu *r) { seen(\"f\"); }\nvoid drop(struct rcu *r) { call_rcu(r, freed); seen", nil, "$freed", ownName},
		{"a new callback of RCU that comes again", "void drop(struct rcu *r) { seen(\"d\"); }\n", "void drop(struct rcu *r) { seen",
			"static void freed(struct rcu *r) { seen(\"f\"); call_rcu(r, freed); }\nvoid drop(struct rcu *r) { call_rcu(r, freed); seen",
			[]string{"freed: in freed its address is passed to call_rcu, which keeps it until a grace period is over"}, "", ""},
		{"a new callback of SRCU", "void drop(struct rcu *r) { seen(\"d\"); }\n", "void drop(struct rcu *r) { seen",
			"static void freed(struct rcu *r) { seen(\"f\"); }\nvoid drop(struct rcu *r) { call_srcu(0, r, freed); seen",
			[]string{"passed to call_srcu, which keeps it until a grace period"}, "", ""},
		{"a new callback of RCU for tasks", "void drop(struct rcu *r) { seen(\"d\"); }\n", "void drop(struct rcu *r) { seen",
			"static void freed(struct rcu *r) { seen(\"f\"); }\nvoid drop(struct rcu *r) { call_rcu_tasks(r, freed); seen",
			[]string{"passed to call_rcu_tasks, which keeps it until a grace period"}, "", ""},
		{"a new entry of a wait queue", "void queue(void *q) { seen(\"q\"); }\n", "void queue(void *q) { seen",
			"static struct wait entry;\nvoid queue(void *q) { prepare_to_wait(q, &entry, 1); seen",
			[]string{"entry: in queue its address is passed to prepare_to_wait, which keeps it until the queue is left"}, "", ""},
		{"a changed callback of RCU", "void freed(struct rcu *r) { seen(\"f\"); }\nvoid drop(struct rcu *r) { seen(\"d\"); call_rcu(r, freed); }\n",
			"{ seen(\"f\"); }\nvoid drop(struct rcu *r) {", "{ seen(\"f2\"); }\nvoid drop(struct rcu *r) { seen(\"d2\");", nil, "$__kernel_own_freed", "$freed"},
		{"a new timer's function", "void arm(struct timer *t) { seen(\"a\"); }\n", "void arm(struct timer *t) { seen",
			"static void late(struct timer *t) { seen(\"l\"); }\nvoid arm(struct timer *t) { static int key; init_timer_key(t, late, 0, \"&t\", &key); seen",
			[]string{"late: in arm its address is passed to init_timer_key, which keeps it until the timer has run"}, "", ""},
		{"a changed timer's function", "void late(struct timer *t) { seen(\"l\"); }\nvoid arm(struct timer *t) { seen(\"a\"); init_timer_key(t, late, 0, \"&t\", NULL); }\n",
			"{ seen(\"l\"); }\nvoid arm(struct timer *t) {", "{ seen(\"l2\"); }\nvoid arm(struct timer *t) { seen(\"a2\");", nil, "$__kernel_own_late", "$late"},
		{"a new high-resolution timer's function", "void arm(struct hrtimer *t) { seen(\"a\"); }\n", "void arm(struct hrtimer *t) { seen",
			"static int tick(struct hrtimer *t) { seen(\"t\"); return 0; }\nvoid arm(struct hrtimer *t) { t->function = tick; seen",
			[]string{"tick: in arm its address is written to memory"}, "", ""},
		{"new work", "void kick(void) { seen(\"k\"); }\n", "void kick(void) { seen",
			"static void done(struct work *w) { seen(\"w\"); }\nstatic struct work todo = { done };\nextern void *system_wq;\nvoid kick(void) { queue_work_on(0, system_wq, &todo); seen",
			[]string{"todo: in kick its address is passed to queue_work_on, which keeps it until the work is done"}, "", ""},
		{"new work in another module's queue", "void kick(void *wq, struct work *w) { seen(\"k\"); }\n", "struct work *w) { seen",
			"struct work *w);\nstatic void done(struct work *w) { seen(\"w\"); }\nvoid kick(void *wq, struct work *w) { w->func = done; queue_work_on(0, wq, w); seen",
			[]string{"done: in kick its address is written to memory"}, "", ""},
		{"new delayed work", "void kick(void) { seen(\"k\"); }\n", "void kick(void) { seen",
			"static void done(struct work *w) { seen(\"w\"); }\nstatic struct work todo = { done };\nvoid kick(void) { queue_delayed_work_on(0, 0, &todo, 5); seen",
			[]string{"todo: in kick its address is passed to queue_delayed_work_on"}, "", ""},
		{"a new table of operations", "void open_it(struct file *f) { seen(\"o\"); }\n", "void open_it(struct file *f) { seen",
			"static int open(void *v) { seen(\"v\"); return 0; }\nstatic const struct ops ops = { open, \"name\" };\nvoid open_it(struct file *f) { f->ops = &ops; seen",
			[]string{"ops: in open_it its address is written to memory that others see"}, "", ""},
		{"a changed function in a new table", "int open(void *v) { seen(\"v\"); return 0; }\nvoid open_it(struct file *f) { seen(\"o\"); }\n",
			"seen(\"v\"); return 0; }\nvoid open_it(struct file *f) { seen", "seen(\"v2\"); return 0; }\nstatic const struct ops ops = { open, 0 };\nvoid open_it(struct file *f) { strange(&ops); seen",
			[]string{"ops: in open_it its address is passed to strange, of which it is not known that it forgets"}, ".quad __kernel_own_open", ".quad open\n"},
		{"a new table that is copied", "void open_it(void **to) { seen(\"o\"); }\n", "void open_it(void **to) { seen",
			"static int open(void *v) { seen(\"v\"); return 0; }\nstatic const struct ops ops = { open, 0 };\nvoid open_it(void **to) { *to = kmemdup(&ops, 16, 0); seen",
			[]string{"ops: in open_it its address is what kmemdup copies elsewhere"}, "", ""},
		{"a new thread", "void begin(void) { seen(\"b\"); }\n", "void begin(void) { seen",
			"static int loop(void *v) { seen(\"l\"); return 0; }\nvoid begin(void) { kthread_create_on_node(loop, 0, -1, \"looper\"); seen",
			[]string{"loop: in begin its address is passed to kthread_create_on_node, which keeps it as long as the thread runs"}, "", ""},
		{"a new interrupt handler", "void begin(void) { seen(\"b\"); }\n", "void begin(void) { seen",
			"static int handle(int n, void *v) { seen(\"h\"); return 0; }\nvoid begin(void) { request_threaded_irq(5, handle, 0, 0, \"irq\", 0); seen",
			[]string{"handle: in begin its address is passed to request_threaded_irq, which keeps it until the interrupt is given back",
				`the text "irq": in begin its address`}, "", ""},
		{"a new callback of a socket", "void use(struct sock *s) { seen(\"u\"); }\n", "void use(struct sock *s) { seen",
			"static void ready(struct sock *s) { seen(\"r\"); }\nvoid use(struct sock *s) { s->ready = ready; seen",
			[]string{"ready: in use its address is written to memory"}, "", ""},
		{"a new notifier", "void use(void *c) { seen(\"u\"); }\n", "void use(void *c) { seen",
			"static struct wait block;\nvoid use(void *c) { notifier_chain_register(c, &block); seen",
			[]string{"block: in use its address is passed to notifier_chain_register, which keeps it until it is taken back"}, "", ""},
		{"a string literal is stored in an object", "void use(struct sock *s) { _printk(\"u\"); }\n", "{ _printk", "{ s->msg = \"bad\"; _printk", []string{"is written to memory that others see"}, "", ""},
		{"a string literal is printed", "void use(int n) { _printk(\"u\"); }\n", "{ _printk", "{ if (n > 4) _printk(\"%d is bad\", n); _printk", nil, "", ""},
		{"a string literal is the format of a variadic function", "void use(int n) { _printk(\"u\"); }\n", "{ _printk", "{ if (n > 4) tells(0, \"%d is bad\", n); _printk", nil, "", ""},
		{"a function is an argument of a variadic function", "void use(int n) { seen(\"u\"); }\n", "void use(int n) { seen", "static int late(void) { seen(\"l\"); return 0; }\nvoid use(int n) { tells(late, \"%d is bad\", n); seen",
			[]string{"late: in use its address is passed to tells"}, "", ""},
		{"a function's address is compared", "int woken(struct wait *w, unsigned m) { seen(\"w\"); return m; }\nint use(struct wait *w) { seen(\"u\"); return w->func == woken; }\n",
			"return m; }\nint use(struct wait *w) {", "return m + 1; }\nint use(struct wait *w) { seen(\"more\");", nil, "$__kernel_own_woken", "$woken"},
		{"a comparison function is passed to sort", "void use(void *v) { seen(\"u\"); }\n", "void use(void *v) { seen",
			"static int less(const void *a, const void *b) { return *(int *)a - *(int *)b; }\nvoid use(void *v) { sort(v, 9, 4, less, 0); seen", nil, "$less", ""},
		{"new data that only the update reads", "int use(int n) { seen(\"u\"); return n; }\n", "int use(int n) { seen",
			"static int count, lock;\nint use(int n) { mutex_lock(&lock); count += n; mutex_unlock(&lock); seen", nil, "count", ""},
		{"a new function stores its argument", "void use(struct sock *s) { seen(\"u\"); }\n", "void use(struct sock *s) { seen",
			"static noinline void set(struct sock *s, void (*f)(struct sock *), int n) { seen(\"s\", n); s->ready = f; }\nstatic void ready(struct sock *s) { seen(\"r\"); }\nstatic void ready2(struct sock *s) { seen(\"r2\"); }\nvoid use(struct sock *s) { set(s, ready, 2); set(s, ready2, 3); seen",
			[]string{"ready: in set its address is written to memory", "ready2: in set its address is written to memory"}, "", ""},
		{"a new function never returns", "void use(int n) { seen(\"u\"); }\n", "void use(int n) { seen",
			"extern void panic(const char *, ...) __attribute__((noreturn));\nstatic noinline void fail(struct sock *s, void (*f)(struct sock *)) { s->ready = f; panic(\"fail\"); }\nstatic void ready(struct sock *s) { seen(\"r\"); }\nvoid use(int n) { if (n > 4) fail(0, ready); seen",
			[]string{"ready: in "}, "", ""},
		{"a new function only prints its argument", "void use(int n) { seen(\"u\"); }\n", "void use(int n) { seen",
			"static noinline void tell(const char *s, int n) { _printk(\"%s\", s); _printk(s, n); }\nvoid use(int n) { tell(\"one\", n); tell(\"two\", n + 1); seen", nil, "", ""},
		{"a string literal is returned", "const char *use(int n) { seen(\"u\"); return 0; }\n", "seen(\"u\"); return 0", "seen(\"u\"); return n ? \"one\" : \"two\"",
			[]string{`the text "one": in use its address is returned to the kernel`}, "", ""},
		{"a string literal is passed by a pointer to a function", "void use(int (*f)(const char *)) { seen(\"u\"); }\n", "char *)) { seen", "char *)) { f(\"name\"); seen",
			[]string{"is passed on by a pointer to a function"}, "", ""},
		{"string literals of a table are passed on", "void use(int n) { seen(\"u\"); }\n", "void use(int n) { seen",
			"static const char *names[] = { \"one\", \"two\", \"three\" };\nvoid use(int n) { names[0] += 0; strange(names[n]); seen",
			[]string{`the text "one": in use its address is passed to strange`, `the text "three": in use`}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := strings.ReplaceAll(kernelWords+c.source, "seen(", "_printk(")
			old, new := strings.ReplaceAll(c.old, "seen(", "_printk("), strings.ReplaceAll(c.new, "seen(", "_printk(")
			old, new = strings.TrimSuffix(old, "seen"), strings.TrimSuffix(new, "seen")
			got, err := compareTexts(t, source, replaceText(t, source, old, new))
			if err != nil {
				t.Fatal(err)
			}
			got.Variadic = func(name string) bool { return name == "tells" }
			e := got.Extract("v")
			var list []string
			for _, escape := range e.Escapes {
				list = append(list, escape.String())
			}
			for _, want := range c.escapes {
				if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("no %q in %q", want, list)
				}
			}
			if len(c.escapes) == 0 && len(list) > 0 {
				t.Errorf("held: %q", list)
			}
			if text := string(e.Text); !strings.Contains(text, c.text) || c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("want %q and not %q in\n%s", c.text, c.not, text)
			}
		})
	}
}

// A function of the kernel that faults when it is called by a pointer keeps
// the module's address, and holds it.
func TestSealedFunctionKeepsTheModulesAddress(t *testing.T) {
	source := kernelWords + "int woken(struct wait *w, unsigned m) { _printk(\"w\"); return m; }\nvoid queue(struct wait *w) { w->func = woken; _printk(\"q\"); }\n"
	got, err := compareTexts(t, source, replaceText(t, source, "return m; }\nvoid queue(struct wait *w) {", "return m + 1; }\nvoid queue(struct wait *w) { _printk(\"more\");"))
	if err != nil {
		t.Fatal(err)
	}
	got.Sealed = func(name string) bool { return name == "woken" }
	e := got.Extract("v")
	if len(e.Escapes) != 1 || e.Escapes[0].Symbol != "woken" || strings.Contains(string(e.Text), ownName) {
		t.Errorf("%v in\n%s", e.Escapes, e.Text)
	}
}

// What the kernel's own function is called by names it in the image.
func TestStatementsThatTakeAnAddress(t *testing.T) {
	for _, c := range []struct {
		text       string
		code, data bool // in a function, in a variable
	}{
		{"movq $g, %rax", true, true},
		{"lock xaddl %eax, g(%rip)", true, true},
		{"rep movsq", true, true},
		{"call g", false, false},
		{"jmp g", false, false},
		{"jne g", false, false},
		{"bnd jmp g", false, false},
		{"notrack jmp *g(%rip)", false, false},
		{"g:", false, false},
		{".quad g", false, true},
		{".long g-.", false, true},
		{".type g, @object", false, false},
		{".size g, 8", false, false},
		{".globl g", false, false},
	} {
		for of, want := range map[*Symbol]bool{{Func: true}: c.code, {}: c.data} {
			if got := takesAddress(of, c.text); got != want {
				t.Errorf("%s, in a function %v: %v", c.text, of.Func, got)
			}
		}
	}
}

func TestPointerToChangedFunctionNamesTheKernels(t *testing.T) {
	source := kernelWords + "static noinline int woken(struct wait *w, unsigned m) { seen(\"w\"); return m; }\nint queue(struct wait *w) { w->func = woken; seen(\"q\"); return woken(w, 2); }\n"
	got, err := compareTexts(t, source, replaceText(t, source, "return m; }\nint queue(struct wait *w) {", "return m + 1; }\nint queue(struct wait *w) { seen(\"more\");"))
	if err != nil {
		t.Fatal(err)
	}
	e := got.Extract("v")
	checkNames(t, "changed", got.Changed, "woken", "queue")
	if !slices.Contains(e.Locals, Local{Name: ownName + "woken.v", Is: "woken", Func: true, Kernel: true}) {
		t.Errorf("locals %+v", e.Locals)
	}
	if text := string(e.Text); !strings.Contains(text, "jmp woken\n") && !strings.Contains(text, "call woken\n") {
		t.Errorf("its own calls go elsewhere:\n%s", text)
	}
}
