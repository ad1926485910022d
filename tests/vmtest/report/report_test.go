// SPDX-License-Identifier: MIT

package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The logs of testdata follow the formats in the kernels' sources. A file begins with the
// expected reports, "# KIND FUNCTION", and then has the log.
func TestScan(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log")
	if err != nil || len(logs) < 30 {
		t.Fatalf("%d logs in testdata, %v", len(logs), err)
	}
	for _, path := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".log"), func(t *testing.T) {
			want, text := readLog(t, path)
			checkReports(t, want, text)
			checkReports(t, want, strings.ReplaceAll(text, "\n", "\r\n"))
			checkReports(t, want, strings.ReplaceAll(text, "[   ", "<4>[   "))
			checkReports(t, want, "a program without a newline"+text)
			if want != nil { // a stamp makes a program's words the kernel's
				checkReports(t, want, stampAll(text))
			}
		})
	}
}

// stampAll adds a time stamp with a caller to each line without one.
func stampAll(text string) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if !stamp.MatchString(line) {
			line = fmt.Sprintf("[ %4d.%06d][  T%d] %s", i, i, i, line)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

func readLog(t *testing.T, path string) (want []string, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = string(data)
	_, text, _ = strings.Cut(text, "\n") // the licence
	for strings.HasPrefix(text, "# ") {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		want = append(want, strings.TrimPrefix(line, "# "))
	}
	if len(want) == 1 && want[0] == "nothing" {
		want = nil
	}
	return want, text
}

func checkReports(t *testing.T, want []string, text string) {
	t.Helper()
	seen, err := Scan(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range seen {
		line := strings.TrimSpace(string(r.Kind) + " " + r.Function)
		for range r.Count {
			got = append(got, line)
		}
		if r.Line == "" {
			t.Errorf("%v has no line", r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q in\n%s", got, want, text)
	}
}

func TestScan_several(t *testing.T) {
	warn := "[    1.000000] WARNING: CPU: 0 PID: 7 at a/b.c:3 f%d+0x1/0x2\n[    1.000001] ---[ end trace 0000000000000000 ]---\n"
	seen, err := Scan(strings.NewReader(fmt.Sprintf(warn+warn+warn, 1, 2, 1)))
	want := []Report{{Kind: Warning, Function: "f1", Count: 2}, {Kind: Warning, Function: "f2", Count: 1}}
	if err != nil || len(seen) != 2 || reportKey(seen[0]) != reportKey(want[0]) || reportKey(seen[1]) != reportKey(want[1]) {
		t.Errorf("got %v, %v; want %v", seen, err, want)
	}
}

// Two processors' events may be printed line by line in turn.
func TestScan_interleaved(t *testing.T) {
	one := strings.Split(strings.ReplaceAll(interleaved, "FUNC", "first"), "\n")
	two := strings.Split(strings.ReplaceAll(interleaved, "FUNC", "second"), "\n")
	var text strings.Builder
	for i := range one {
		fmt.Fprintf(&text, "%s\n%s\n", one[i], two[i])
	}
	checkReports(t, []string{"WARNING first", "WARNING second"}, text.String())
}

const interleaved = `[    5.000001] ------------[ cut here ]------------
[    5.000002] WARNING: CPU: 0 PID: 80 at x.c:1 FUNC+0x1/0x2 [mod]
[    5.000003] Modules linked in: mod(OE)
[    5.000004] CPU: 0 PID: 80 Comm: insmod Tainted: G           OE      6.1.0-50-amd64 #1  Debian 6.1.176-1
[    5.000005] RIP: 0010:FUNC+0x1/0x2 [mod]
[    5.000006] Call Trace:
[    5.000007]  <TASK>
[    5.000008]  FUNC+0x1/0x2 [mod]
[    5.000009]  </TASK>
[    5.000010] ---[ end trace 0000000000000000 ]---`

// A log that is cut at any place after a complete header still gives a report.
func TestScan_cut(t *testing.T) {
	logs, _ := filepath.Glob("testdata/*.log")
	for _, path := range logs {
		want, text := readLog(t, path)
		if len(want) != 1 {
			continue
		}
		lines := strings.SplitAfter(text, "\n")
		found := false
		for i := range lines {
			seen, err := Scan(strings.NewReader(strings.Join(lines[:i+1], "")))
			if err != nil || len(seen) > 1 || found && len(seen) == 0 {
				t.Errorf("%s cut behind line %d: %v, %v", path, i+1, seen, err)
			}
			found = found || len(seen) == 1
		}
	}
}

func reportKey(r Report) string { return fmt.Sprint(r.Kind, " ", r.Function, " ", r.Count) }

// A flood of lines uses little memory, and the report after it is found.
func TestScan_flood(t *testing.T) {
	flood := bytes.Repeat([]byte("WARNING: CPU: 0 PID: 1 at x.c:1 \x00\xff["), 1<<20)
	tail := "\n[    9.000000] Kernel panic - not syncing: gone\n"
	seen, err := Scan(io.MultiReader(bytes.NewReader(flood), strings.NewReader(tail)))
	if err != nil || len(seen) == 0 || seen[len(seen)-1].Kind != Panic {
		t.Errorf("got %v, %v", seen, err)
	}
	var many strings.Builder
	for i := range 3 * maxReports {
		fmt.Fprintf(&many, "WARNING: CPU: 0 PID: 1 at x.c:1 f%d+0x1/0x2\n", i)
	}
	seen, err = Scan(strings.NewReader(many.String()))
	if err != nil || len(seen) != maxReports+1 || seen[maxReports].Count != 2*maxReports {
		t.Errorf("%d reports, %v", len(seen), err)
	}
}

func TestCompare(t *testing.T) {
	w := func(f string, n int) Report { return Report{Kind: Warning, Function: f, Count: n} }
	list := func(r ...Report) []Report { return r }
	tests := []struct {
		name                   string
		expected, seen         []Report
		wantMissing, wantExtra []Report
	}{
		{"nothing", nil, nil, nil, nil},
		{"as declared", list(w("f", 2)), list(w("f", 2)), nil, nil},
		{"undeclared", nil, list(w("f", 1)), nil, list(w("f", 1))},
		{"absent", list(w("f", 1)), nil, list(w("f", 1)), nil},
		{"declared twice, seen once", list(w("f", 2)), list(w("f", 1)), list(w("f", 1)), nil},
		{"declared once, seen twice", list(w("f", 1)), list(w("f", 2)), nil, list(w("f", 1))},
		{"declared in two steps", list(w("f", 1), w("f", 1)), list(w("f", 2)), nil, nil},
		{"another function", list(w("f", 1)), list(w("g", 1)), list(w("f", 1)), list(w("g", 1))},
		{"another kind", list(Report{Kind: Bug, Function: "f"}), list(w("f", 1)), list(Report{Kind: Bug, Function: "f", Count: 1}), list(w("f", 1))},
		{"any function", list(w("", 2)), list(w("f", 1), w("g", 1)), nil, nil},
		{"named ones come first", list(w("", 1), w("f", 1)), list(w("f", 1), w("g", 1)), nil, nil},
		{"no count means one", list(w("f", 0)), list(w("f", 0)), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			missing, extra := Compare(tt.expected, tt.seen)
			if !slices.Equal(missing, tt.wantMissing) || !slices.Equal(extra, tt.wantExtra) {
				t.Errorf("missing %v, extra %v; want %v, %v", missing, extra, tt.wantMissing, tt.wantExtra)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	logs, _ := filepath.Glob("testdata/*.log")
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		seen, err := Scan(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Scan(bytes.NewReader(data))
		missing, extra := Compare(seen, again)
		if len(missing)+len(extra) > 0 || len(seen) > maxReports+1 {
			t.Fatalf("%d reports; missing %v, extra %v", len(seen), missing, extra)
		}
		for _, r := range seen {
			if r.Count < 1 || r.Line == "" || len(r.Line) > 4*lineText || strings.ContainsAny(r.Line, "\r\n") {
				t.Fatalf("a bad report: %+v", r)
			}
		}
	})
}
