// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Lines of each kind become bars, next to those of peers.
func TestPlot(t *testing.T) {
	groups := plotResults([]string{
		"# 2026-11-23, machine: x",
		"result bench=bee_call op=getpid state=clean added_ns=-7 native_ns=105.0 linux_ns=13.6 ratio=3.1",
		"result bench=bee_call instructions=none",
		"result small 2-ranks o2g latency-8 6.8 us", "result small 2-ranks tcp latency-8 7.5 us", "result small 2-ranks tcp broken", "other text",
		"result bench=x a_mbs=3 b_s=4", "result bench=x a_mbs=3 c_mbs=4", "result x 2-ranks o2g rate 5 calls/s", "result x 2-ranks o2g noise 5 %",
	})
	for i, want := range []string{"less", "less", "", "more", "more", ""} {
		if len(groups) != 6 || groups[i].Better != want {
			t.Fatalf("%+v: group %d is to have %q", groups, i, want)
		}
	}
	if groups = groups[:2]; groups[0].Name != "getpid clean" || len(groups[0].Bars) != 2 || len(groups[1].Bars) != 2 {
		t.Fatalf("%+v", groups)
	}
	if b := groups[0].Bars; b[0].Name != "native ns" || b[0].Ours || !b[1].Ours || b[1].Value != 13.6 {
		t.Errorf("%+v", b)
	}
	if b := groups[1].Bars; groups[1].Name != "latency 8, 2 ranks, us" || !b[0].Ours || b[1].Ours || b[1].Value != 7.5 {
		t.Errorf("%+v", b)
	}
}

// A bench's page has its day, machine and table, and a picture of its lines. The lines themselves,
// of the output or of files, and the path of the tree are not in it. A bench that fails changes
// no page.
func TestPage(t *testing.T) {
	folder := t.TempDir()
	var shown strings.Builder
	m := pageMaker{lines: filepath.Join(folder, "lines"), folder: filepath.Join(folder, "bench"), out: &shown, now: time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)}
	command := `echo "two  <a>: $PWD/build"; echo; echo 'result x 2-ranks skep time 3 s'; echo 'result bench=b op=<a> own_ns=1 native_ns=2' >` + m.lines + `/b.results`
	if err := m.make("x", command); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(m.folder, "x.md"))
	page := string(text)
	if err != nil || !strings.Contains(page, "; 9 November 2026; commit ") || !strings.Contains(page, ", load ") ||
		!strings.HasSuffix(page, "\n![The figures as bars](x.svg)\n\n    two  <a>: build\n") || strings.Contains(page, "result ") {
		t.Errorf("%v: %s", err, page)
	}
	svg, err := os.ReadFile(filepath.Join(m.folder, "x.svg"))
	if err != nil || !strings.Contains(string(svg), "&lt;a&gt;") || !strings.Contains(string(svg), "time, 2 ranks, s") || strings.Count(string(svg), "<rect") != 4 {
		t.Errorf("%v: %s", err, svg)
	}
	if !strings.Contains(shown.String(), "two  <a>") || !strings.Contains(shown.String(), "x.md") {
		t.Errorf("shown is %q", &shown)
	}
	if err := m.make("x", "echo half; exit 3"); err == nil {
		t.Error("a bench that fails has a page")
	}
	if again, err := os.ReadFile(filepath.Join(m.folder, "x.md")); err != nil || string(again) != page {
		t.Errorf("%v: a bench that failed changed its page: %s", err, again)
	}
}

// Each bench of make goes through the page.
func TestMakeBench(t *testing.T) {
	make := exec.Command("make", "-n", "bench", "T=grid-sched", "Q=")
	make.Dir = "../../.."
	out, err := make.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "bench page grid-sched '") || !strings.Contains(string(out), "claims docs/results") {
		t.Errorf("%v: %s", err, out)
	}
}

// The table goes to the standard output, and lines for machines to the file only, so that a table
// in a file has no others among its rows.
func TestRecordsAreApart(t *testing.T) {
	b := &bench{build: t.TempDir()}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = in
	err = b.runRecorded("x", func() error {
		fmt.Println("a row")
		b.writeRecord("result bench=x own_ns=%d", 1)
		return nil
	})
	os.Stdout = stdout
	in.Close()
	said, readErr := io.ReadAll(out)
	if err != nil || readErr != nil || !strings.Contains(string(said), "a row\n") || strings.Contains(string(said), "result ") {
		t.Errorf("%v, %v: printed is %q", err, readErr, said)
	}
	lines, err := os.ReadFile(filepath.Join(b.build, "bench", "results", "x.results"))
	if err != nil || !strings.Contains(string(lines), "result bench=x own_ns=1\n") || strings.Contains(string(lines), "a row") {
		t.Errorf("%v: the file has %q", err, lines)
	}
}
