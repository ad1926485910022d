// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
	"skep/internal/report"
)

func emptyReport(t *testing.T) *report.Report {
	t.Helper()
	r := newReport(t.Context(), testDay)
	r.Log = []string{"the figures"}
	return r
}

// The file is replaced as a whole, and only when the report is complete.
func TestBenchFileIsReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "result.json")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	for _, saves := range []bool{false, true} {
		f, err := createReport(link)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != "old" {
			t.Errorf("before the report: %q, %v", text, err)
		}
		if saves {
			if err := f.save(emptyReport(t)); err != nil {
				t.Error(err)
			}
		}
		f.remove()
		if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
			t.Errorf("saved %v: %v, %v", saves, list, err)
		}
	}
	text, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	if r, err := report.Read(text); err != nil || len(r.Log) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if to, err := os.Readlink(link); err != nil || to != name {
		t.Errorf("the link is %q, %v", to, err)
	}
}

// What cannot be a report is refused before the measuring.
func TestBenchFileThatIsNone(t *testing.T) {
	for name, want := range map[string]string{
		t.TempDir(): "is not a file", os.DevNull: "is not a file",
		filepath.Join(t.TempDir(), "missing", "x.json"): "x.json can't be written: ",
	} {
		f, err := createReport(name)
		if err == nil {
			f.remove()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Figures that the file did not take are in the file that the error names, else on standard
// output.
func TestBenchKeepsItsFigures(t *testing.T) {
	spare := t.TempDir()
	for _, c := range []struct{ temporary, says string }{
		{spare, "; the figures are in " + spare}, {filepath.Join(spare, "missing"), "; the figures are the last lines of standard output"},
	} {
		for _, name := range []string{"TMPDIR", "TMP"} {
			t.Setenv(name, c.temporary)
		}
		folder := filepath.Join(spare, "gone")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := createReport(filepath.Join(folder, "result.json"))
		if err != nil {
			t.Fatal(err)
		}
		f.next.Close() // as if the disk failed
		out := printedBy(t, &os.Stdout, func() { err = f.save(emptyReport(t)) })
		if err == nil || !strings.Contains(err.Error(), "result.json can't be written: ") || !strings.Contains(err.Error(), c.says) {
			t.Fatalf("%v, want %q", err, c.says)
		}
		if _, file, ok := strings.Cut(err.Error(), "; the figures are in "); ok {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out = string(text)
		}
		if r, err := report.Read(strings.NewReader(out)); err != nil || len(r.Log) != 1 {
			t.Errorf("%v in %s", err, out)
		}
		if err := os.Remove(folder); err != nil {
			t.Errorf("something is left beside the file: %v", err)
		}
	}
}

// A report that readers would refuse is kept too.
func TestBenchKeepsAnInvalidReport(t *testing.T) {
	f, err := createReport(filepath.Join(t.TempDir(), "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := emptyReport(t)
	r.Format = "other"
	err = f.save(r)
	if err == nil {
		t.Fatal("it is written")
	}
	_, file, _ := strings.Cut(err.Error(), "; the figures are in ")
	text, failed := os.ReadFile(file)
	if failed != nil || !strings.Contains(string(text), `"other"`) {
		t.Errorf("%v: %v, %s", err, failed, text)
	}
	os.Remove(file)
}

// An interrupted run replaces nothing.
func TestBenchInterrupted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "result.json")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	code, text := 0, ""
	printedBy(t, &os.Stdout, func() { code, text = cli.ExitCode(dispatch(ctx, []string{"bench", "--report", name})) })
	if code != exitStopped || !strings.Contains(text, name+" was not written") {
		t.Errorf("%d, %s", code, text)
	}
	if list, err := os.ReadDir(filepath.Dir(name)); err != nil || len(list) != 0 {
		t.Errorf("left are %v, %v", list, err)
	}
}
