// SPDX-License-Identifier: MIT

package rely

import "testing"

// Comments, directives and texts are no statements, and those of several lines are one.
func TestStatementsOfASource(t *testing.T) {
	list := splitStatements("#define A \\\n\tb;\nint f(void)\n{\n\tfor (i = 0; i < 3; i++) /* ; } */\n\t\tg(\";\",\n\t\t  ';'); // {\n\treturn 1;\n}\n")
	for line, want := range map[int]string{2: "", 3: "int f(void)", 5: "for (i = 0; i < 3; i++)", 6: `g(";", ';')`, 7: `g(";", ';')`, 8: "return 1"} {
		if got := textOf(list, line); got != want {
			t.Errorf("line %d: %q, want %q", line, got, want)
		}
	}
}
