// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"testing"

	"skep/internal/uapi"
)

// A new version that a pointer led to has no wrapper below it on the stack.
func TestTaskInNewVersionWithoutWrapper(t *testing.T) {
	proc := fakeProc(t, symbols, map[string]string{"20/task/20": "[<0>] pipe_read+0x1/0x2\n[<0>] ksys_read+0x45/0x100 [fix]\n[<0>] do_syscall_64+0x3/0x4\n"})
	list, err := List(oneUpdate(), Names{})
	if err != nil {
		t.Fatal(err)
	}
	if err := FillInside(proc, list); err != nil {
		t.Fatal(err)
	}
	if got := list[0].Inside; len(got) != 1 || got[0] != (Task{20, 20, "cat", "ksys_read", "new", "pipe_read"}) {
		t.Errorf("%+v", got)
	}
}

func TestPolicyTextRuleByRule(t *testing.T) {
	for want, choices := range map[string][]uint32{
		"uid 1":                                {1},
		"except uid 1":                         {0},
		"uid 1, or uid 2":                      {1, 1},
		"uid 1, except uid 2":                  {1, 0},
		"except uid 1, except uid 2":           {0, 0},
		"uid 1, or uid 2, except uid 3":        {1, 1, 0},
		"except uid 1, or uid 2, except uid 3": {0, 1, 0},
	} {
		p := uapi.DynamosPolicy{Rules: uint32(len(choices))}
		for i, choice := range choices {
			p.Rule[i] = uapi.DynamosRule{Choice: choice, Terms: uapi.DynamosUID, UID: uint32(i + 1)}
		}
		if got := DescribePolicy(&p, Names{}); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
