// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// rulesText lists the rules of a function of this text, sorted.
func rulesText(t *testing.T, body string) string {
	t.Helper()
	u := parseUnit(t, globalFunction("f", body))
	var out []string
	for k, more := range newWatcher(u, nil).rulesOf(u.byName["f"]) {
		out = append(out, fmt.Sprintf("%s if %s is %v, else more: %v", k.then, k.on, k.met, more))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Each branch within a function says which hold comes on one of its sides only.
func TestRulesOfBranches(t *testing.T) {
	const asked, get, put = "\tcmpl $3, 8(%rdi)\n", "\tcall get_box\n", "\tcall put_box\n"
	const on = "cmp(3, *(argument 0+8)) e"
	for name, c := range map[string]struct{ body, want string }{
		"a hold that is passed over":    {asked + "\tjz .L1\n" + get + ".L1:\n", "get_box(argument 0) if " + on + " is false, else more: false"},
		"a hold that is jumped to":      {asked + "\tjz .L1\n\tret\n.L1:\n" + get, "get_box(argument 0) if " + on + " is true, else more: false"},
		"another one on each side":      {asked + "\tjz .L1\n" + put + "\tret\n.L1:\n" + get, "get_box(argument 0) if " + on + " is true, else more: true; put_box(argument 0) if " + on + " is false, else more: true"},
		"the same on both sides":        {asked + "\tjz .L1\n" + get + "\tret\n.L1:\n" + get, ""},
		"only the first counts":         {asked + "\tjz .L1\n" + put + get + "\tret\n.L1:\n" + put, ""},
		"behind the branch":             {get + asked + "\tjz .L1\n\tnop\n.L1:\n", ""},
		"a jump without a condition":    {asked + "\tjmp .L1\n" + put + ".L1:\n" + get, ""},
		"a branch to another function":  {asked + "\tjz other\n" + get, ""},
		"a branch that nothing reaches": {"\tret\n" + asked + "\tjz .L1\n" + get + ".L1:\n", ""},
		"behind what nothing reaches":   {asked + "\tjmp .L0\n\tcmpl $5, %esi\n.L0:\n\tjz .L1\n" + get + ".L1:\n", "get_box(argument 0) if ? e is false, else more: false"},
		"a branch of an alternative":    {asked + "\t.pushsection .altinstr_replacement,\"ax\"\n\tjz .L1\n\t.popsection\n" + get + ".L1:\n", ""},
		"a loop":                        {"1:\n" + asked + "\tjz 1b\n" + get, ""},
		"two branches":                  {asked + "\tjz .L1\n\ttestq %rsi, %rsi\n\tjz .L1\n" + get + ".L1:\n", "get_box(argument 0) if cmp(0, argument 1) e is false, else more: false; get_box(argument 0) if " + on + " is false, else more: false"},
	} {
		if got := rulesText(t, c.body); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}
