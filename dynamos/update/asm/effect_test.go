// SPDX-License-Identifier: MIT

package asm

import (
	"slices"
	"strings"
	"testing"
)

// kernelHeader has what the kernel's headers make of a count and of a function's end:
// a prefix as a statement of its own, and a call that does not return.
const kernelHeader = `
struct box { int lock, other, count, state; struct box *next; };
extern void mutex_lock(int *), mutex_unlock(int *), kfree(void *), use(struct box *), get_box(struct box *), put_box(struct box *);
extern int ask(struct box *), queue_work_on(int, struct box *), look_up(int *);
extern void rcu_read_lock(void), rcu_read_unlock(void);
extern void __stack_chk_fail(void) __attribute__((noreturn));
static inline int add_return(int n, int *count) { int old = n; __asm__ volatile("\n671:\n\tlock; xaddl %0, %1\n" : "+r" (old), "+m" (*count) : : "memory"); return old + n; }
static inline void inc(int *count) { __asm__ volatile("lock; incl %0" : "+m" (*count)); }
`

// sabotaged are functions as the kernel has them, each changed so that two versions at a time
// do harm.
const sabotaged = `
int drop(struct box *b) { use(b); if (add_return(-1, &b->count) == 0) queue_work_on(4, b); seen("d"); return 0; }
int take(struct box *b) { inc(&b->count); use(b); seen("t"); return 0; }
int set(struct box *b, int a) { get_box(b); mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock); if (ask(b) == 7) __stack_chk_fail(); return a; }
int opens(struct box *b) { int n = ask(b); if (n) { put_box(b); seen("o"); return n; } b->state = 5; seen("p"); return 0; }
int limit(struct box *b, int a) { if (a > 4) get_box(b); seen("l"); return a; }
int both(struct box *b, int a) { mutex_lock(&b->lock); mutex_lock(&b->other); b->state = a; mutex_unlock(&b->other); mutex_unlock(&b->lock); return 0; }
int found(struct box *b, int n) { rcu_read_lock(); if (look_up(&n)) { mutex_lock(&b->lock); b->state = n; mutex_unlock(&b->lock); if (n) { rcu_read_unlock(); return n; } } rcu_read_unlock(); put_box(b); return 0; }
int list(struct box *b, int a) { if (a > 4) { mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock); } else b->state = a; return 0; }
int checks(struct box *b, int a) { if (a > 4) return -22; mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock); return 0; }
`

// The class of sabotaged changes as the kernel's own code has them.
func TestProposedClassOfKernelCode(t *testing.T) {
	for _, c := range []struct{ name, old, new, why string }{
		{"a count moves", "use(b); if (add_return(-1, &b->count) == 0) queue_work_on(4, b);", "if (add_return(-1, &b->count) == 0) queue_work_on(4, b); use(b);",
			"drop: use() may now come after atomic xaddl(-1, argument 0+8)"},
		{"a count of another amount", "add_return(-1, &b->count)", "add_return(-2, &b->count)", "drop: atomic xaddl(-2, argument 0+8) may now come right after"},
		{"another counter", "inc(&b->count)", "inc(&b->state)", "take: atomic incl(argument 0+12) may now come right after the function's start"},
		{"a count becomes a plain write", "inc(&b->count)", "b->count++", "take: no longer calls atomic incl"},
		{"work is queued in the opposite case", "if (add_return(-1, &b->count) == 0)", "if (add_return(-1, &b->count) != 0)", "drop: queue_work_on(4) now comes under the opposite condition"},
		{"a write after the unlock, before a call that never returns", "b->state = a; mutex_unlock(&b->lock); if (ask", "mutex_unlock(&b->lock); b->state = a; if (ask",
			"set: the write to argument 0+12 may now come after mutex_unlock(argument 0)"},
		{"another lock, before a call that never returns", "get_box(b); mutex_lock(&b->lock); b->state = a; mutex_unlock(&b->lock);", "get_box(b); mutex_lock(&b->other); b->state = a; mutex_unlock(&b->other);",
			"set: mutex_lock(argument 0+4) may now come right after get_box(argument 0)"},
		{"a reference is given back in the opposite case", "if (n) { put_box(b);", "if (!n) { put_box(b);", "opens: put_box(argument 0) now comes under the opposite condition"},
		{"another condition of a reference", "if (a > 4) get_box(b);", "if (a > 5) get_box(b);", "limit: get_box(argument 0) has another condition"},
		{"another condition of a lock without which the same is written", "if (a > 4) { mutex_lock", "if (a > 6) { mutex_lock", "list: mutex_lock(argument 0) has another condition"},
		{"the last ways of a lock and a release change places", "if (n) { rcu_read_unlock(); return n; } } rcu_read_unlock(); put_box(b);", "if (!n) { rcu_read_unlock(); put_box(b); return n; } } rcu_read_unlock();",
			"found: put_box(argument 0) no longer comes after rcu_read_lock() and rcu_read_unlock()"},
		{"an unlock that is missing on one way", "b->state = a; mutex_unlock(&b->other); mutex_unlock(&b->lock); return 0;", "if (a > 4) { mutex_unlock(&b->lock); return -4; } b->state = a; mutex_unlock(&b->other); mutex_unlock(&b->lock); return 0;",
			"both: mutex_unlock(argument 0) may now come right after mutex_lock(argument 0+4)"},

		{"another limit of a check", "if (a > 4) return -22;", "if (a > 9) return -22;", ""},
		{"the opposite check of a value that holds nothing", "seen(\"d\"); return 0;", "if (b->state) seen(\"d\"); return 0;", ""},
		{"a check more after a lock", "mutex_lock(&b->other); b->state = a;", "mutex_lock(&b->other); if (a > 4) { mutex_unlock(&b->other); mutex_unlock(&b->lock); return -4; } b->state = a;", ""},
		{"another value that is counted", "use(b); seen(\"t\"); return 0;", "use(b->next); seen(\"t\"); return 1;", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := compareTexts(t, kernelHeader+sabotaged, kernelHeader+replaceText(t, sabotaged, c.old, c.new))
			if err != nil {
				t.Fatal(err)
			}
			got.Arguments = func(name string) int {
				if strings.HasPrefix(name, "rcu_") {
					return 0
				}
				return 1
			}
			class, why := ProposeClass([]*Change{got})
			if want := map[bool]Class{true: Any, false: Together}[c.why == ""]; class != want || !strings.Contains(strings.Join(why, "; "), c.why) {
				t.Errorf("%s, %q, want %q", class, why, c.why)
			}
		})
	}
}

// Each jump asks a condition or its opposite.
func TestConditionsOfJumps(t *testing.T) {
	for words, want := range map[string]string{"je jz": "e true", "jne jnz": "e false", "jl jnge": "l true", "jge jnl": "l false", "jle jng": "le true", "jg jnle": "le false",
		"jb jc jnae": "b true", "jae jnb jnc": "b false", "jbe jna": "be true", "ja jnbe": "be false", "js": "s true", "jns": "s false", "jo": "o true", "jno": "o false",
		"jp jpe": "p true", "jnp jpo": "p false"} {
		for _, word := range strings.Fields(words) {
			u := parseUnit(t, globalFunction("f", "\tcmpl $3, 8(%rdi)\n\tmovl $1, %ecx\n\t"+word+" .L1\n\tnop\n.L1:\n"))
			g, r := graphOf(u.byName["f"]), &reader{newNormalizer(u), u.byName["f"]}
			for i, s := range g.steps {
				if s.word != word {
					continue
				}
				is := " true"
				c, jumps := r.conditionOf(g, r.valuesOf(g), i)
				if !jumps {
					is = " false"
				}
				if c.is+is != want || c.of != "cmp(3, *(argument 0+8))" || !c.known {
					t.Errorf("%s: %+v, %v, want %s", word, c, jumps, want)
				}
			}
		}
	}
}

// A jump asks what the last comparison before it says, whatever else stands between them.
func TestJumpAsksTheLastComparison(t *testing.T) {
	const compared = "cmp(3, *(argument 0+8))"
	for name, c := range map[string]struct{ between, want string }{
		"nothing":                    {"", compared},
		"an alternative instruction": {"\t.pushsection .altinstr_replacement,\"ax\"\n\ttestl %eax, %eax\n\t.popsection\n", compared},
		"a move":                     {"\tmovl $1, %ecx\n", compared},
		"an address":                 {"\tleaq 8(%rsi), %rcx\n", compared},
		"push and pop":               {"\tpushq %rcx\n\tpopq %rcx\n", compared},
		"a directive":                {"\t.p2align 4\n", compared},
		"another comparison":         {"\tcmpl $4, 8(%rdi)\n", "cmp(4, *(argument 0+8))"},
		"a test of one value":        {"\ttestq %rsi, %rsi\n", "cmp(0, argument 1)"},
		"a test of two values":       {"\ttestq %rsi, %rdx\n", "test(argument 1, argument 2)"},
		"a call":                     {"\tcall other\n", "?"},
	} {
		u := parseUnit(t, globalFunction("f", "\tcmpl $3, 8(%rdi)\n"+c.between+"\tjz .L1\n\tnop\n.L1:\n"))
		g, r := graphOf(u.byName["f"]), &reader{newNormalizer(u), u.byName["f"]}
		for i, s := range g.steps {
			if s.word != "jz" {
				continue
			}
			if got, _ := r.conditionOf(g, r.valuesOf(g), i); got.of != c.want || got.known != (c.want != "?") {
				t.Errorf("%s: %+v, want %s", name, got, c.want)
			}
		}
	}
}

// What is known at a function's start stays known, whatever stands at its end.
func TestFunctionDoesNotBeginAgain(t *testing.T) {
	const body = "\tpushq %rbx\n\tmovq %rdi, %rbx\n\tcmpl $3, %esi\n\tjz .L2\n\tleaq 8(%rbx), %rdi\n\tcall mutex_lock\n\tpopq %rbx\n\tret\n"
	for name, end := range map[string]string{
		"a call that does not return, and code behind it": ".L2:\n\tcall __stack_chk_fail\n.L3:\n\tjmp .L4\n.L4:\n\tmovq %rbx, %rdi\n\tcall kfree\n",
		"a trap": ".L2:\n\txorl %edi, %edi\n\txorl %ebx, %ebx\n\tud2\n",
	} {
		text := strings.Replace(globalFunction("f", body+end), "\tret\n\t.size", "\t.size", 1)
		u := parseUnit(t, text)
		pairs := newWatcher(u, nil).sequencesOf(u.byName["f"]).pairs
		lock := effect{aHold, "mutex_lock", "argument 0+8"}
		if !pairs[sequence{effect{kind: theStart}, lock}] {
			t.Errorf("%s: %v", name, pairs)
		}
		for s := range pairs {
			if s.then.name == "kfree" || s.last == lock && s.then.kind == aHold {
				t.Errorf("%s: %v comes after %v", name, s.then, s.last)
			}
		}
	}
}

// Which conditions count as others.
func TestConditionsOfHolds(t *testing.T) {
	put, get := effect{aHold, "put", "argument 0"}, effect{aHold, "get", "argument 0"}
	start, lock, unlock := effect{kind: theStart}, effect{aHold, "lock", "1"}, effect{aHold, "unlock", "1"}
	x, y, unknown := condition{"cmp(1, argument 1)", "e", true}, condition{"cmp(2, argument 1)", "e", true}, condition{"cmp(1, ?)", "e", false}
	loose := sequences{pairs: map[sequence]bool{{start, put}: true}}
	tight := sequences{pairs: map[sequence]bool{{start, lock}: true, {lock, unlock}: true}}
	for name, c := range map[string]struct {
		was, is rules
		in      sequences
		want    string
	}{
		"the same":                               {rules{{put, x, true}: false}, rules{{put, x, true}: false}, loose, ""},
		"the opposite":                           {rules{{put, x, true}: false}, rules{{put, x, false}: false}, loose, "put(argument 0) now comes under the opposite condition"},
		"the opposite of what is not known":      {rules{{put, unknown, true}: false}, rules{{put, unknown, false}: false}, loose, "put(argument 0) now comes under the opposite condition"},
		"the opposite as well":                   {rules{{put, x, true}: false}, rules{{put, x, true}: false, {put, x, false}: false}, loose, ""},
		"one of both":                            {rules{{put, x, true}: false, {put, x, false}: false}, rules{{put, x, false}: false}, loose, ""},
		"another one":                            {rules{{put, x, true}: false}, rules{{put, y, true}: false}, loose, "put(argument 0) has another condition: cmp(2, argument 1) e, was cmp(1, argument 1) e"},
		"another one that is not known":          {rules{{put, x, true}: false}, rules{{put, unknown, true}: false}, loose, ""},
		"another one than one that is unknown":   {rules{{put, unknown, true}: false}, rules{{put, y, true}: false}, loose, ""},
		"another one of another call":            {rules{{put, x, true}: false}, rules{{get, y, true}: false}, loose, ""},
		"a condition more":                       {rules{{put, x, true}: false}, rules{{put, x, true}: false, {put, y, true}: false}, loose, ""},
		"another check before a lock":            {rules{{lock, x, true}: false}, rules{{lock, y, true}: false}, tight, ""},
		"another choice between a lock and more": {rules{{lock, x, true}: true}, rules{{lock, y, true}: true}, tight, "lock(1) has another condition: cmp(2, argument 1) e, was cmp(1, argument 1) e"},
	} {
		if got := strings.Join(compareRules(c.was, c.is, c.in, c.in), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A run of holds that is gone counts if its holds are in both functions, and only then.
func TestRunsThatAreGone(t *testing.T) {
	a, b, c, start := effect{aHold, "lock", "1"}, effect{aHold, "unlock", "1"}, effect{aHold, "put", "1"}, effect{kind: theStart}
	of := func(list ...effect) sequences {
		out := sequences{map[sequence]bool{}, map[run]bool{}}
		last := map[sequence]bool{{start, start}: true}
		for _, e := range list {
			last = out.add(last, e)
		}
		return out
	}
	join := func(list ...sequences) sequences {
		out := sequences{map[sequence]bool{}, map[run]bool{}}
		for _, s := range list {
			addAll(&out.pairs, s.pairs)
			addAll(&out.runs, s.runs)
		}
		return out
	}
	const gone = "put(1) no longer comes after lock(1) and unlock(1)"
	d := effect{aHold, "get", "1"}
	both := join(of(a, b, c), of(a, d, b, c))
	for name, x := range map[string]struct {
		was, is sequences
		want    bool
	}{
		"the same":                  {both, both, false},
		"one way more":              {of(a, b, c), both, false},
		"gone":                      {both, join(of(a, d, b, c), of(a, b)), true},
		"gone with what came first": {both, of(d, b, c), false},
	} {
		if got := compareSequences(x.was, x.is); slices.Contains(got, gone) != x.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
