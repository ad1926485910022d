// SPDX-License-Identifier: MIT

package mutate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const goSample = `package p

import "errors"

const size = 4

// A comment with a < b and 7.
func f(a, b int) (int, error) {
	if a < b && true {
		a += 2
		g("text 9")
		return a, errors.New("bad")
	}
	for a != b {
		a++
		break
	}
	x := a + b
	return x, nil
}
`

// formatMutations returns the mutations as old -> new with their line.
func formatMutations(list []Mutation) []string {
	var out []string
	for _, m := range list {
		out = append(out, fmt.Sprintf("%d: %s -> %s", m.Line, Shorten(m.old), Shorten(m.new)))
	}
	slices.Sort(out)
	return out
}

func wantList(t *testing.T, got []string, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(want), "\n")
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func TestGo(t *testing.T) {
	list, err := goMutations("p/f.go", []byte(goSample))
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, formatMutations(list), `
5: 4 -> 5
9: a < b && true -> !(a < b && true)
9: && -> ||
9: < -> <=
9: true -> false
10: += -> -=
10: a += 2 -> (nothing)
10: 2 -> 3
11: g("text 9") -> (nothing)
12: errors.New("bad") -> nil
14: a != b -> !(a != b)
14: != -> ==
15: ++ -> --
15: a++ -> (nothing)
16: break -> (nothing)
18: + -> -
`)
}

// An assertion only checks what callers do, so it stays.
func TestGoAssertion(t *testing.T) {
	list, err := goMutations("p/f.go", []byte("package p\n\nfunc f() {\n\tlockdep.AssertHeld(&mu)\n\tg()\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, formatMutations(list), "5: g() -> (nothing)")
}

// The order depends only on the seed.
func TestChoose(t *testing.T) {
	list, err := goMutations("p/f.go", []byte(goSample))
	if err != nil {
		t.Fatal(err)
	}
	turned := slices.Clone(list)
	slices.Reverse(turned)
	one, again, two := Choose("1", list), Choose("1", turned), Choose("2", list)
	if len(one) != len(list) || !slices.Equal(one, again) {
		t.Errorf("seed 1 chose\n%v\nand then\n%v", one, again)
	}
	if slices.Equal(one, two) {
		t.Error("seeds 1 and 2 chose the same order")
	}
	if one[0].ID() != "p/f.go:14:6: a != b -> !(a != b)" {
		t.Errorf("the first of seed 1 is %s", one[0].ID())
	}
}

func TestProduct(t *testing.T) {
	for name, want := range map[string]bool{
		"grid/sched/pick.go": true, "grid/sched/pick_test.go": false, "abi/fd.c": true,
		"abi/test/fd_test.c": false, "o2g/core/test/fuzz/frames.c": false, "abi/fd.h": true,
		"abi/room.mk": false, "grid/agent/testdata/worker.c": false,
	} {
		if Product(name) != want {
			t.Errorf("Product(%q) is %v", name, !want)
		}
	}
}
