// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestStatementsOfALine(t *testing.T) {
	for raw, want := range map[string][]string{
		"":                                 nil,
		"\tret":                            {"ret"},
		"\tret # a comment":                {"ret"},
		"\tret; nop ;; int3":               {"ret", "nop", "int3"},
		"\t.string \"a;b#c\" # d":          {".string \"a;b#c\""},
		"\t.string \"a\\\"; b\"; nop":      {".string \"a\\\"; b\"", "nop"},
		"\t.string \"\\\\\"; nop":          {".string \"\\\\\"", "nop"},
		"\tmov /* from */ %eax, %ebx":      {"mov %eax, %ebx"},
		"\tmov %eax, %ebx /* open":         {"mov %eax, %ebx"},
		"\tmov a/b, %ebx":                  {"mov a/b, %ebx"},
		"f: 1:\tret":                       {"f:", "1:", "ret"},
		".LC0:\n":                          {".LC0:"},
		"a:b:c:":                           {"a:", "b:", "c:"},
		"\tmovq %gs:x, %rax":               {"movq %gs:x, %rax"},
		"\tmov  \t %eax ,\t%ebx\r":         {"mov %eax , %ebx"},
		"\t.ascii  \"two  blanks \\\" x\"": {".ascii \"two  blanks \\\" x\""},
	} {
		list, err := split("t.s", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range list {
			got = append(got, l.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

// A line number is that of the file, and marks stand by themselves.
func TestLinesAreCountedFromOne(t *testing.T) {
	list, err := split("t.s", []byte("f:\n\n #APP \n\tnop; ret\n#NO_APP"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []line{{"f:", 1}, {"#APP", 3}, {"nop", 4}, {"ret", 4}, {"#NO_APP", 5}}; !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
}

func TestTokensOfAStatement(t *testing.T) {
	for text, want := range map[string]string{
		"call f":                         "f",
		"movq $a+8, b(%rip)":             "a 8 b",
		"movl %eax, 4(%rsp,%rbx,8)":      "4 8",
		".quad .LC1 - f.isra.0":          ".LC1 f.isra.0",
		".string \"a \\\" b\" , c":       "c",
		".type f, @function":             "f",
		"f:":                             "f",
		"1:":                             "1",
		"ret":                            "",
		".word \\x, y":                   "y",
		"jmp *table(,%rax,8)":            "table 8",
		"_A9z.: ":                        "",
		"mov AZaz09_., %x@GOT":           "AZaz09_.",
		".ascii \"open":                  "",
		".ascii \"ends with a quote\\\"": "",
	} {
		var got []string
		for _, k := range listTokens(text) {
			got = append(got, text[k.begin:k.end])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if same := replaceTokens(text, func(s string) string { return s }); same != text {
			t.Errorf("%q becomes %q", text, same)
		}
	}
	if got := replaceTokens("movq $a+a, b(%rip) # a", strings.ToUpper); got != "movq $A+A, B(%rip) # A" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{"f, 8": "f", " \"a.b\" ,x": "a.b", "": "", "f": "f"} {
		if got := firstArg(text); got != want {
			t.Errorf("the first of %q is %q", text, got)
		}
	}
	for text, want := range map[string]string{"a: b": "a|b", "a:": "a|", ":a": "|:a", "a b:": "|a b:", "a": "|a", ".L1: 2:": ".L1|2:", "9z_: x": "9z_|x"} {
		if label, rest := cutLabel(text); label+"|"+rest != want {
			t.Errorf("%q: %q and %q", text, label, rest)
		}
	}
}

func TestNamesWithNumbers(t *testing.T) {
	for name, want := range map[string]string{"f": "f false", "count.0": "count true", "count.12": "count true", "f.isra.0": "f.isra.0 false", "f.part.3.cold": "f.part.3.cold false",
		"f.constprop.0.1": "f.constprop.0.1 false", "__UNIQUE_ID_x12": "__UNIQUE_ID_x true", "__UNIQUE_ID___addressable_f7.8": "__UNIQUE_ID___addressable_f true",
		".5": ".5 false", "a..5": "a..5 false", "x.y": "x.y false", "": " false"} {
		base, numbered := baseName(name)
		if got := fmt.Sprintf("%s %v", base, numbered); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, c := range []struct {
		s              Symbol
		private, local bool
	}{
		{Symbol{Name: ".LC0", Section: ".rodata.str1.1"}, true, false}, {Symbol{Name: "names.0", Section: ".rodata.names.0"}, true, false},
		{Symbol{Name: "names", Section: ".rodata.names"}, false, false}, {Symbol{Name: "names.0", Section: ".rodata", Global: true}, false, false},
		{Symbol{Name: "f.0", Section: ".rodata", Func: true}, false, false}, {Symbol{Name: "count.0", Section: ".bss.count.0"}, false, true},
		{Symbol{Name: "count.0", Section: ".bss", Global: true}, false, false}, {Symbol{Name: "count", Section: ".bss"}, false, false},
		{Symbol{Name: "f.0", Section: ".text", Func: true}, false, false}, {Symbol{Name: ".LC1", Section: ".data"}, false, false},
	} {
		if isPrivate(&c.s) != c.private || isLocal(&c.s) != c.local {
			t.Errorf("%+v: private %v, local %v", c.s, isPrivate(&c.s), isLocal(&c.s))
		}
	}
	for _, c := range []struct {
		s    Symbol
		want string
	}{{Symbol{Name: "f", Section: ".text.f", Func: true}, ".text.f"}, {Symbol{Name: "count", Section: ".bss.count"}, ".bss"}, {Symbol{Name: "count", Section: ".data.other"}, ".data.other"},
		{Symbol{Name: ".LC0", Section: ".rodata.f.str1.8"}, ".rodata.str1.8"}, {Symbol{Name: ".LC0", Section: ".rodata.cst16"}, ".rodata.cst16"}, {Symbol{Name: ".LC0", Section: ".rodata.f.cst4"}, ".rodata.cst4"}} {
		if got := sectionOf(&c.s); got != c.want {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
	}
}

// What a parser refuses, and what it takes.
func TestAssemblyThatIsNotWhole(t *testing.T) {
	function := globalFunction("f", "")
	for name, c := range map[string]struct{ text, why string }{
		"a function without its end":    {strings.Replace(function, "\t.size f,.-f\n", "", 1), "ends inside of f"},
		"a function twice":              {function + function, "f is listed twice"},
		"a variable twice":              {fresh + fresh, "fresh is listed twice"},
		"a common variable twice":       {"\t.comm a,4,4\n\t.comm a,4,4\n", "line 2: a is listed twice"},
		"a symbol without a name":       {"\t.type , @object\n", "a symbol has no name"},
		"more popped than pushed":       {"\t.pushsection .a\n\t.popsection\n\t.popsection\n", "line 3: a section is popped that was not pushed"},
		"as many pushed as possible":    {strings.Repeat("\t.pushsection .a\n", 65), ""},
		"one more":                      {strings.Repeat("\t.pushsection .a\n", 66), "more than 64 sections are pushed"},
		"nothing":                       {"", ""},
		"popped inside of a function":   {strings.Replace(function, "\tret\n", "\t.popsection\n", 1), "was not pushed"},
		"popped in assembly of its own": {"#APP\n\t.popsection\n#NO_APP\n", "was not pushed"},
	} {
		u, err := Parse("t.c", []byte(c.text))
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) || (u == nil) != (err != nil) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// The sections of symbols, and which lines are of which.
func TestSymbolsOfAssembly(t *testing.T) {
	u := parseUnit(t, `	.file "t.c"
	.section .text.f,"ax",@progbits
	.p2align 4
	.type f, @function
f:
	call __fentry__
	.pushsection __bug_table,"aw"
	.long 1
	.popsection
	.section .text.unlikely.f,"ax"
f.cold:
	ud2
	.section .text.f
	ret
.LFE0:
	.size f, .-f
	.section .text.unlikely.f
.LCOLDE0:
	.size f.cold, .-f.cold
	.text
.LHOTE0:
	.type g, @function
g:
	ret
	.size g, .-g
	.globl value
	.weak soft
	.set other, value
	.data
	.align 8
	.type value, @object
	.size value, 8
value:
	.quad f
	.previous
	.bss
	.type soft, @object
soft:
	.zero 4
	.section .rodata.str1.1,"aMS",@progbits,1
.LC0:
	.string "text"
	.comm shared,16,8
	.section .note.x
	.long 3
`)
	var got []string
	for _, s := range append(slices.Clone(u.Symbols), u.consts[".LC0"]) {
		got = append(got, fmt.Sprintf("%s %s func=%v global=%v weak=%v traced=%v lines=%d length=%s", s.Name, s.Section, s.Func, s.Global, s.Weak, s.Traced, len(s.lines), s.length()))
	}
	want := []string{
		"f .text.f func=true global=false weak=false traced=true lines=17 length=.-f",
		"g .text func=true global=false weak=false traced=false lines=4 length=.-g",
		"value .data func=false global=true weak=false traced=false lines=5 length=8",
		"soft .bss func=false global=false weak=true traced=false lines=3 length=?",
		"shared .bss func=false global=false weak=false traced=false lines=1 length=?",
		".LC0 .rodata.str1.1 func=false global=false weak=false traced=false lines=2 length=?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if u.Symbol("other") != u.Symbol("value") || u.Symbol("none") != nil || u.findSymbol(".LC0") != u.consts[".LC0"] || u.Symbol(".LC0") != nil {
		t.Error("names do not lead to their symbols")
	}
	if s := u.byName["f"]; s.lines[0].text != ".p2align 4" || s.Flags != `"ax",@progbits` {
		t.Errorf("%+v", s)
	}
}

// Calls count in pairs and by name; those of the compiler and of programs' memory do not.
func TestCallsThatCount(t *testing.T) {
	u := parseUnit(t, globalFunction("f", `	call mutex_lock
	call mutex_lock
	call kfree
	call __get_user_8
	call __put_user_4
	call _printk
	call .Llock
	call __x86_indirect_thunk_lock
	call trace_lock_begin
	lock incl (%rdi)
	lock; decl (%rdi)
	incl %gs:pcpu_hot+8(%rip)
	incl %gs:softnet(%rip)
	xchgl %eax, (%rdi)
	xchgl %eax, %ebx
	movq $mutex_unlock, %rax
	call wake_up
	call atomic_add_get
	call schedule
`))
	holds := map[string]bool{}
	for s := range newWatcher(u, nil).sequencesOf(u.byName["f"]).pairs {
		if s.then.kind == aHold {
			holds[s.then.name] = true
		}
	}
	want := map[string]bool{"mutex_lock": true, "kfree": true, "atomic incl": true, "atomic decl": true, "atomic xchgl": true, "wake_up": true, "atomic_add_get": true, "incl": true}
	if fmt.Sprint(holds) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", holds, want)
	}
	for name, want := range map[string]bool{"up": true, "__up_read": true, "cleanup": false, "down_write": true, "breakdown": false, "sema": true, "semantic": false, "f_get": true,
		"get_x": true, "budget_of": false, "x_put_y": true, "output": false, "kref": true, "refcount_inc": true, "kmem_cache": true, "complete": true, "preempt_count": true,
		"seqcount": true, "rcu_read": true, "waiting": true, "percpu_ref_x": true, "local_irq_x": true, "local_bh_y": true, "spin_irqsave": true, "x_irqrestore": true,
		"alloc": true, "free": true, "rwsem": true, "mutex": true, "block": true, "read": false} {
		if pairs().MatchString(name) != want {
			t.Errorf("%s counts: %v", name, !want)
		}
	}
}

// Why an address is kept.
func TestReasonsToKeepAnAddress(t *testing.T) {
	for name, want := range map[string]string{
		"call_rcu": "a grace period", "call_srcu": "a grace period", "call_rcu_tasks_trace": "a grace period", "add_timer": "the timer has run", "__mod_timer": "the timer",
		"timer_setup": "the timer", "hrtimer_init": "the timer", "queue_work_on": "work is done, in a queue", "schedule_delayed_work": "in a queue", "mod_delayed_work_on": "in a queue",
		"irq_work_queue": "until the work is done", "task_work_add": "until the work", "tasklet_setup": "until the work", "add_wait_queue": "the queue is left",
		"__add_wait_queue_x": "the queue is left", "prepare_to_wait_event": "the queue is left", "kthread_create": "the thread runs", "request_irq": "the interrupt", "request_nmi": "the interrupt", "request_any_context_irq": "the interrupt", "request_firmware": "not known",
		"devm_request_threaded_irq": "the interrupt", "setup_irq": "the interrupt", "notifier_chain_register": "until it is taken back", "proc_create": "until it is taken back",
		"single_open": "until it is taken back", "anon_inode_getfd": "until it is taken back", "strange": "not known that it forgets", "homework": "not known", "recall_rcu": "not known",
	} {
		if got := keepReason(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A refusal has as much of a place as is known.
func TestTextOfARefusal(t *testing.T) {
	for want, r := range map[string]Refusal{"why": {Reason: "why"}, "a.c: why": {Path: "a.c", Reason: "why"}, "a.c:3: why": {Path: "a.c", Line: 3, Reason: "why"},
		"a.c: f: why": {Path: "a.c", Symbol: "f", Reason: "why"}, "a.c:1: f: why": {Path: "a.c", Symbol: "f", Line: 1, Reason: "why"}} {
		if got := r.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if (&Change{New: []string{"f"}}).IsEmpty() || (&Change{Changed: []string{"f"}}).IsEmpty() || !(&Change{Data: []string{"x"}}).IsEmpty() {
		t.Error("a change of functions is empty, or one of data alone is not")
	}
}
