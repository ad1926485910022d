// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const folder = "../../../docs/results"

// hasFigure reports whether a page contains a figure as a separate number.
func hasFigure(page, figure string) bool {
	return regexp.MustCompile(`(^|[^\d.,])` + regexp.QuoteMeta(figure) + `([.,]?$|[^\d.,]|[.,]\D)`).MatchString(page)
}

// Each figure of the overview is on the page that its row names, with its day.
func TestFiguresAreOnTheirPages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "claims.tbl"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(string(text))
	if err != nil || len(rows) < 8 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		page, err := os.ReadFile(filepath.Join(folder, r.page))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, f := range append(r.ours, r.peers...) {
			if !hasFigure(string(page), f.text) {
				t.Errorf("%s has no %s, which is the figure of %s (%s)", r.page, f.text, r.what, f.name)
			}
		}
		if day := strings.TrimPrefix(r.day, "2026-11-"); !strings.Contains(string(page), day+" November") {
			t.Errorf("%s does not name the day %s", r.page, r.day)
		}
	}
}

// The page and its pictures are up to date with the table.
func TestOverviewIsCurrent(t *testing.T) {
	files, err := render(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != want {
			t.Errorf("%s is not what the table says (%v): run make claims", name, err)
		}
	}
}

// The overview lists each page of make bench with its day and machine, and refuses another one.
func TestListOfRuns(t *testing.T) {
	folder := t.TempDir()
	if text, err := listRuns(folder); text != "" || err != nil {
		t.Errorf("without pages: %q, %v", text, err)
	}
	page := filepath.Join(folder, "bench", "x.md")
	if err := os.Mkdir(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"<!-- x -->\n# make bench T=x\n\nCPU, 2 CPUs, load 0.10; 29 November 2026; commit abc with changes.\n\n    1 ns\n": "| [x](bench/x.md) | 29 November 2026 | CPU, 2 CPUs, load 0.10 | commit abc with changes |\n",
		"# make bench T=x\n\n    1 ns\n": "",
	} {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := listRuns(folder)
		if (err == nil) != (want != "") || !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestWrongTables(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb": "2 columns",
		"a\tb\tc\tns\tbee\tx=1\tp\tm\t2026-11-21":       "NAME=FIGURE",
		"a\tb\tc\tns\tbee=1\tx=many\tp\tm\t2026-11-21":  "invalid syntax",
		"a\tb\tc\tns\tbee=1\t\tp\tm\t2026-11-21":        "column 6 is empty",
		"a\tb\tc\tns\tbee=1\tx=1\tp\t\t2026-11-21":      "column 8 is empty",
		"a\tb\tc\tns\tbee=1\tx=1\tp\tm\tyesterday":      "is no day",
		"a\tb\tc\tns\tbee=1\tx=1,200\tp\tm\t2026-11-21": "",
	} {
		_, err := readRows(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for page, has := range map[string]bool{"| 13.6 |": true, "113.6": false, "13.65": false, "13.6.": true, "+13.6": true, "13,6": false} {
		if hasFigure(page, "13.6") != has {
			t.Errorf("%q", page)
		}
	}
}
