// SPDX-License-Identifier: MIT

package asm

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// argumentRegisters hold a function's arguments, in order.
var argumentRegisters = []string{"%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"}

// escapesOfFunction is escapesOf where fresh is a new function.
func escapesOfFunction(t *testing.T, body string) []Escape {
	t.Helper()
	made := strings.ReplaceAll(strings.ReplaceAll(fresh, ".data.fresh,\"aw\"", ".text.fresh,\"ax\""), "@object", "@function")
	c, err := compareByHand(t, globalFunction("f", ""), globalFunction("f", body)+strings.ReplaceAll(made, ".quad 0", "ret\n\tnop"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Extract("v").Escapes
}

// A function of the kernel that keeps an address in one argument may be given it in another. What
// it forgets is written here as its manual and its source say.
func TestCalleesKeepSomeArguments(t *testing.T) {
	for names, forgets := range map[string]string{
		"prepare_to_wait prepare_to_wait_event prepare_to_wait_exclusive": "0", // the head; the entry stays in it
		"init_timer_key init_on_stack_timer_key":                          "034",
		"kthread_create_on_node kthread_create_on_cpu":                    "3", // the format
		"alloc_workqueue":                                       "0",
		"kobject_set_name dev_set_name":                         "1",
		"_printk finish_wait sort stop_machine walk_page_range": "012345",
		"add_wait_queue queue_work_on queue_delayed_work_on mod_delayed_work_on add_timer mod_timer timer_setup hrtimer_start_range_ns hrtimer_init " +
			"call_srcu call_rcu_tasks call_rcu_tasks_trace irq_work_queue task_work_add tasklet_setup kthread_create_worker request_threaded_irq " +
			"devm_request_threaded_irq notifier_chain_register register_netdevice proc_create_data single_open seq_open anon_inode_getfd call_rcu strange": "",
	} {
		for _, name := range strings.Fields(names) {
			for i, r := range argumentRegisters {
				got := escapesOf(t, "\tmovq $fresh, "+r+"\n\tcall "+name+"\n")
				want := !strings.ContainsRune(forgets, rune('0'+i))
				if len(got) != 0 != want || want && !strings.Contains(got[0].How, "is passed to "+name+", "+keepReason(name)) {
					t.Errorf("argument %d of %s: %v, kept: %v", i, name, got, want)
				}
			}
		}
	}
}

// Nothing that keeps what it is given is among those that forget all of it.
func TestKeepersForgetNothing(t *testing.T) {
	partly := []string{"prepare_to_wait", "prepare_to_wait_event", "prepare_to_wait_exclusive", "init_timer_key", "init_on_stack_timer_key", "kthread_create_on_node", "kthread_create_on_cpu"}
	for _, name := range slices.Sorted(maps.Keys(lookers)) {
		keeps := strings.Contains(keepReason(name), "which keeps it")
		if keeps != slices.Contains(partly, name) {
			t.Errorf("%s keeps an address (%s), and is listed with %+v", name, keepReason(name), lookers[name])
		}
		if u := lookers[name]; keeps && u.looks == argAll || u.returns&^u.looks != 0 || u.copies&^u.looks != 0 {
			t.Errorf("%s: %+v", name, u)
		}
	}
	for name := range barriers {
		if _, listed := lookers[name]; listed || !strings.Contains(keepReason(name), "a grace period") {
			t.Errorf("%s is no callback of RCU, or forgets it: %s", name, keepReason(name))
		}
	}
}

// Removing an update waits for callbacks of RCU: for the function of call_rcu, and for nothing else
// that is kept until a grace period is over.
func TestOnlyCallbacksOfRCUAreWaitedFor(t *testing.T) {
	for _, c := range []struct {
		what, body string
		data, held bool
	}{
		{"the callback", "\tmovq $fresh, %rsi\n\tcall call_rcu\n", false, false},
		{"the callback, at once", "\tmovq $fresh, %rsi\n\tcall call_rcu_hurry\n", false, false},
		{"the callback, at the end", "\tmovq $fresh, %rsi\n\tjmp call_rcu\n", false, false},
		{"in the place of the head", "\tmovq $fresh, %rdi\n\tcall call_rcu\n", false, true},
		{"in both places", "\tmovq $fresh, %rdi\n\tmovq $fresh, %rsi\n\tcall call_rcu\n", false, true},
		{"in a third place", "\tmovq $fresh, %rsi\n\tmovq $fresh, %rdx\n\tcall call_rcu\n", false, true},
		{"data in the callback's place", "\tmovq $fresh, %rsi\n\tcall call_rcu\n", true, true},
		{"the head is the update's own", "\tmovq $fresh, %rdi\n\tcall call_rcu\n", true, true},
		{"RCU of tasks", "\tmovq $fresh, %rsi\n\tcall call_rcu_tasks\n", false, true},
		{"RCU of traces", "\tmovq $fresh, %rsi\n\tcall call_rcu_tasks_trace\n", false, true},
		{"RCU of tasks, rude", "\tmovq $fresh, %rsi\n\tcall call_rcu_tasks_rude\n", false, true},
		{"sleepable RCU", "\tmovq $fresh, %rdx\n\tcall call_srcu\n", false, true},
		{"through a thunk of a pointer", "\tmovq $fresh, %rsi\n\tcall __x86_indirect_thunk_rax\n", false, true},
	} {
		of := escapesOfFunction
		if c.data {
			of = escapesOf
		}
		if got := of(t, c.body); len(got) != 0 != c.held {
			t.Errorf("%s: %v, held: %v", c.what, got, c.held)
		}
	}
}

// What a function returns may be the address that it was given, and only where the table says so.
func TestResultsThatAreTheAddress(t *testing.T) {
	const give = "\tmovq %rax, other(%rip)\n"
	first := []string{"memset", "__memset", "memcpy", "__memcpy", "memmove", "__memmove", "strcpy", "strncpy", "strcat", "strncat",
		"strchr", "strrchr", "strnchr", "strstr", "strnstr", "memchr"}
	for _, name := range slices.Sorted(maps.Keys(lookers)) {
		for i, r := range argumentRegisters[:2] {
			if u := lookers[name]; u.looks>>i&1 == 0 {
				continue
			}
			want := i == 0 && slices.Contains(first, name)
			if got := escapesOf(t, "\tmovq $fresh, "+r+"\n\tcall "+name+"\n"+give); isWritten(got) != want {
				t.Errorf("the result of %s, argument %d: %v, want %v", name, i, got, want)
			}
		}
	}
}

// A copy of data that holds addresses of the module holds them as well.
func TestCopiesHoldWhatTheyAreMadeOf(t *testing.T) {
	for name, from := range map[string]int{"memcpy": 1, "__memcpy": 1, "memmove": 1, "__memmove": 1, "kmemdup": 0, "kmemdup_noprof": 0, "memcmp": -1, "memset": -1, "_copy_to_user": -1} {
		for i, r := range argumentRegisters[:2] {
			for value, leads := range map[string]bool{"0": false, "fresh": true, "f": false} {
				after := globalFunction("f", "\tmovq $fresh, "+r+"\n\tcall "+name+"\n") + strings.Replace(fresh, ".quad 0", ".quad "+value, 1)
				c, err := compareByHand(t, globalFunction("f", ""), after)
				if err != nil {
					t.Fatal(err)
				}
				got := c.Extract("v").Escapes
				if want := leads && i == from; slices.ContainsFunc(got, func(e Escape) bool { return e.How == "is what "+name+" copies elsewhere" }) != want {
					t.Errorf("argument %d of %s, which holds %s: %v, copied: %v", i, name, value, got, want)
				}
			}
		}
	}
}

// A lock of the update's own holds its address, as its queue is empty, and gives it to nobody.
func TestLockOfAnUpdateStaysItsOwn(t *testing.T) {
	lock := strings.Replace(fresh, ".quad 0", ".quad fresh", 1)
	const use = "\tmovq $fresh, %rdi\n\tcall mutex_lock\n\tmovq $fresh, %rdi\n\tcall mutex_unlock\n"
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"it is taken":             {use, false},
		"its queue is looked at":  {use + "\tmovq fresh(%rip), %rax\n\tcmpq $fresh, %rax\n\txorl %eax, %eax\n", false},
		"its queue is given away": {use + "\tmovq fresh(%rip), %rax\n\tmovq %rax, other(%rip)\n", true},
	} {
		got, err := compareByHand(t, globalFunction("f", ""), globalFunction("f", c.body)+lock)
		if err != nil {
			t.Fatal(err)
		}
		if e := got.Extract("v").Escapes; len(e) != 0 != c.want || isWritten(e) != c.want {
			t.Errorf("%s: %v, want %v", name, e, c.want)
		}
	}
}
