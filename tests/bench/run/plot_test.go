// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Lines of each kind become bars, next to those of peers.
func TestPlot(t *testing.T) {
	groups := plotResults([]string{
		"# 2026-11-23, machine: x",
		"result bench=bee_call op=getpid state=clean added_ns=-7 native_ns=105.0 linux_ns=13.6 ratio=3.1",
		"result bench=bee_call instructions=none",
		"result small 2 o2g latency-8 6.8 us", "result small 2 tcp latency-8 7.5 us", "result small 2 tcp broken", "other text",
	})
	if len(groups) != 2 || groups[0].Name != "getpid clean" || len(groups[0].Bars) != 2 || len(groups[1].Bars) != 2 {
		t.Fatalf("%+v", groups)
	}
	if b := groups[0].Bars; b[0].Name != "native ns" || b[0].Ours || !b[1].Ours || b[1].Value != 13.6 {
		t.Errorf("%+v", b)
	}
	if b := groups[1].Bars; !b[0].Ours || b[1].Ours || b[1].Value != 7.5 {
		t.Errorf("%+v", b)
	}
}

func TestPicture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.results")
	if err := os.WriteFile(file, []byte("result bench=b op=<a> own_ns=1 native_ns=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := drawResults(file, "x & y", "machine")
	svg, _ := os.ReadFile(name)
	if err != nil || !strings.Contains(string(svg), "&lt;a&gt;") || !strings.Contains(string(svg), "x &amp; y") || strings.Count(string(svg), "<rect") != 3 {
		t.Errorf("%v: %s", err, svg)
	}
}

// The table goes to the standard output, and lines for machines to the file only, so that a table
// in a file has no others among its rows.
func TestRecordsAreApart(t *testing.T) {
	b := &bench{build: t.TempDir()}
	if err := os.Mkdir(filepath.Join(b.build, "bench"), 0o755); err != nil {
		t.Fatal(err)
	}
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
	lines, err := os.ReadFile(filepath.Join(b.build, "bench", "x.results"))
	if err != nil || !strings.Contains(string(lines), "\nresult bench=x own_ns=1\n") || strings.Contains(string(lines), "a row") {
		t.Errorf("%v: the file has %q", err, lines)
	}
}
