// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/report"
)

func plantReport(t *testing.T, path, processor string) {
	t.Helper()
	r := &report.Report{Format: report.Format, Revision: report.Revision, Date: "2026-11-23",
		Skep: report.Versions{Version: "0.1.0", Commit: "abc", Bee: "bee 0.1"}, Machine: report.Machine{System: "Linux 6.12", Processor: processor, CPUs: 4},
		Seconds: 12.5, Figures: []report.Figure{{Bar: "calls", Name: "getpid", Unit: "ns", Value: 31.5}}, Log: []string{"calls: 1 figure"}}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := report.Write(file, r); err != nil {
		t.Fatal(err)
	}
}

// The command of docs/measuring.md makes one page of several files. One wrong file among them
// is named, and then the page stays as it was.
func TestMakeResults(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	plantReport(t, in("a.json"), "first processor")
	plantReport(t, in("b.json"), "second processor")
	if err := os.WriteFile(in("c.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	results := func(files ...string) (string, error) {
		c := exec.Command("make", "-s", "results", "B="+in("build"), "FILE="+strings.Join(files, " "))
		c.Dir = filepath.Join("..", "..", "..")
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, "MAKE") && !strings.HasPrefix(e, "MFLAGS") {
				c.Env = append(c.Env, e)
			}
		}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := results(in("a.json"), in("b.json")); err != nil || !strings.Contains(out, in("build/results.html")) {
		t.Fatalf("%v\n%s", err, out)
	}
	page, err := os.ReadFile(in("build/results.html"))
	for _, want := range []string{"first processor", "second processor", "31.5", "getpid", "2026-11-23"} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("no %q on the page: %v", want, err)
		}
	}
	if out, err := results(in("a.json"), in("c.json")); err == nil || !strings.Contains(out, in("c.json")+": ") {
		t.Errorf("a wrong file: %v\n%s", err, out)
	}
	if again, err := os.ReadFile(in("build/results.html")); err != nil || string(again) != string(page) {
		t.Errorf("the page changed: %v", err)
	}
	if out, err := results(); err == nil || !strings.Contains(out, "make results FILE=") {
		t.Errorf("no file: %v\n%s", err, out)
	}
}
