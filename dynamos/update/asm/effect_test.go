// SPDX-License-Identifier: MIT

package asm

import (
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
