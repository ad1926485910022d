// SPDX-License-Identifier: MIT

package manual

import (
	"strings"
	"testing"
)

func testPage() *Page {
	return &Page{Name: "skep do", Usage: []string{"skep do THIS", "skep do --that"}, Summary: "do it",
		Text:     []string{"First - it's a \\ sentence. Second.", ".dotted 'quoted"},
		Options:  []Entry{{"-n N", "how often"}},
		Examples: []Entry{{"skep do --a-long-option-of-this --and-another", "twice"}},
		See:      []string{"skep(1)", "bee(1)"}}
}

func TestHelpOfAPage(t *testing.T) {
	var b strings.Builder
	if err := testPage().WriteHelp(&b); err != nil {
		t.Fatal(err)
	}
	want := "usage: skep do THIS\n       skep do --that\n\ndo it\n\nFirst - it's a \\ sentence. Second.\n\n.dotted 'quoted\n" +
		"\nOptions:\n  -n N  how often\n\nExamples:\n  skep do --a-long-option-of-this --and-another\n        twice\n\nSee also: skep(1), bee(1)\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestManualPage(t *testing.T) {
	var b strings.Builder
	if err := testPage().WriteRoff(&b, Title{1, "2026-01-02", "Skep 9"}); err != nil {
		t.Fatal(err)
	}
	want := ".\\\" SPDX-License-Identifier: MIT\n.TH SKEP\\-DO 1 2026-01-02 \"Skep 9\" \"Skep manual\"\n.SH NAME\nskep\\-do \\- do it\n" +
		".SH SYNOPSIS\n.nf\nskep do THIS\nskep do \\-\\-that\n.fi\n.SH DESCRIPTION\nFirst \\- it\\(aqs a \\e sentence.\nSecond.\n.PP\n\\&.dotted \\(aqquoted\n" +
		".SH OPTIONS\n.TP\n\\fB\\-n N\\fR\nhow often\n.SH EXAMPLES\n.TP\n\\fBskep do \\-\\-a\\-long\\-option\\-of\\-this \\-\\-and\\-another\\fR\ntwice\n" +
		".SH SEE ALSO\n.BR skep (1),\n.BR bee (1)\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Columns are aligned by the widest cell. A cell that is too wide does not move the others.
func TestColumns(t *testing.T) {
	var b strings.Builder
	long := strings.Repeat("x", 40)
	WriteColumns(&b, []Entry{{"a", "an explanation"}, {"longest", "b"}, {long, strings.Repeat("word ", 20)}})
	want := "  a        an explanation\n  longest  b\n  " + long + "\n           " + strings.TrimSpace(strings.Repeat("word ", 14)) +
		"\n           " + strings.TrimSpace(strings.Repeat("word ", 6)) + "\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// No variable is described twice, and each has a text.
func TestEnvironmentIsATable(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range Groups() {
		for _, v := range g.Variables {
			if seen[v.Name] || v.Text == "" || !strings.HasSuffix(v.Readers, ")") {
				t.Errorf("%+v", v)
			}
			seen[v.Name] = true
		}
	}
	if got := Environment("SKEP_STATE", "NONE", "HOME"); len(got) != 2 || got[1].Name != "HOME" {
		t.Errorf("%v", got)
	}
}
