// SPDX-License-Identifier: MIT

package mutate

import (
	"strings"
	"testing"
)

const cSample = `#define LIMIT 3
#define LONG(x) \
	(x + 5)
/* a < b */
struct s { int field[8]; };
enum { FIRST = 1 };

static int f(int *a, char c)
{
	struct s v = { 0 };

	// a == b
	/* a < b */
	if (a[0] < 0x10u && c != '+')
		return -EINVAL;
	for (; *a; a++)
		g(a, "7 + 8");
	do {
		*a = 1;
	} while (c);
	v.field[0] |= a[1] - 1;
	return -a[0];
}
`

func TestC(t *testing.T) {
	wantList(t, formatMutations(cMutations("p/f.c", []byte(cSample))), `
10: 0 -> 1
14: (a[0] < 0x10u && c != '+') -> (!(a[0] < 0x10u && c != '+'))
14: 0 -> 1
14: < -> <=
14: 0x10u -> 0x11u
14: && -> ||
14: != -> ==
15: -EINVAL -> 0
16: *a -> !(*a)
16: ++ -> --
17: g(a, "7 + 8"); -> ;
19: *a = 1; -> ;
19: 1 -> 2
20: (c) -> (!(c))
21: v.field[0] |= a[1] - 1; -> ;
21: 0 -> 1
21: |= -> &=
21: 1 -> 2
21: - -> +
21: 1 -> 2
22: 0 -> 1
`)
}

// An assertion of a lock only checks what callers do, so it stays; what it is applied to
// is the product's.
func TestCAssertion(t *testing.T) {
	text := "void f(struct x *a)\n{\n\tlockdep_assert_held(&a->lock);\n\tsms_spin_assert(&lock);\n" +
		"\tbee_filelock_assert(a);\n\to2g_assert_locked(a);\n\tassert_locked(a);\n\tskep_assert(a);\n}\n"
	wantList(t, formatMutations(cMutations("p/f.c", []byte(text))), "7: assert_locked(a); -> ;\n8: skep_assert(a); -> ;")
}

func TestApply(t *testing.T) {
	for _, m := range cMutations("p/f.c", []byte(cSample)) {
		out := string(m.Apply([]byte(cSample)))
		if out == cSample || len(out) != len(cSample)+len(m.new)-len(m.old) {
			t.Errorf("%s: %q", m, out)
		}
		if m.Line == 15 && !strings.Contains(out, "\t\treturn 0;\n") {
			t.Errorf("%s: %q", m, out)
		}
	}
}
