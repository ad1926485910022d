// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/report"
)

var testDay = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// A bar that cannot be measured is listed with the reason, one that fails with its error,
// and the others are measured.
func TestBenchListsWhatIsAbsent(t *testing.T) {
	m := &measuring{Report: newReport(t.Context(), testDay), work: t.TempDir()}
	for _, c := range []struct {
		name string
		err  error
	}{{"one", unshownError("there is none")}, {"two", errors.New("broken")}, {"three", nil}} {
		m.measureBar(t.Context(), bar{c.name, func(_ context.Context, m *measuring) error {
			m.addFigure(c.name, "x", "ns", 1, "", 0)
			return c.err
		}})
	}
	want := []report.Absent{{Bar: "one", Reason: "there is none"}, {Bar: "two", Reason: "it failed: broken"}}
	if len(m.Absent) != 2 || m.Absent[0] != want[0] || m.Absent[1] != want[1] || len(m.Figures) != 3 {
		t.Errorf("%+v, %d figures", m.Absent, len(m.Figures))
	}
}

func TestBenchWrongUse(t *testing.T) {
	for line, want := range map[string]string{
		"bench":                               "--report FILE",
		"bench --report x --hosts a,b":        "--measure PROGRAM",
		"bench --report x more":               "not expected",
		"bench --report /nowhere/result.json": "/nowhere",
	} {
		if _, code, text := outputOf(t, strings.Fields(line)...); code == 0 || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s", line, code, text)
		}
	}
}

// Figures of two runs are paired by their names.
func TestBenchFigures(t *testing.T) {
	m := &measuring{Report: &report.Report{}}
	if err := m.addPairs("noise", "gap 3.5 us\nword\nlost 0 %\n", "Linux", "lost 7 %\n"); err != nil {
		t.Fatal(err)
	}
	if f := m.Figures; len(f) != 2 || f[0].PeerValue != nil || f[0].Value != 3.5 || *f[1].PeerValue != 7 || f[1].Unit != "%" {
		t.Errorf("%+v", f)
	}
	if err := m.addPairs("noise", "nothing here\n", "", ""); err == nil {
		t.Error("no figure, no error")
	}
	m.Figures = nil
	err := m.addUpdates(`[{"functions":[{"symbol":"f","old":{"p50_ns":20},"new":{"p50_ns":30}},{"symbol":"g","old":{},"new":{"p50_ns":1}}]}]`)
	if f := m.Figures; err != nil || len(f) != 1 || f[0].Value != 30 || *f[0].PeerValue != 20 {
		t.Errorf("%+v, %v", f, err)
	}
	var unshown unshownError
	if err := m.addUpdates("[]"); !errors.As(err, &unshown) {
		t.Errorf("no update: %v", err)
	}
}

// A report hides the names of the machine and its user, even if a program prints them.
func TestBenchHidesNames(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home", "plantedperson")
	folder := filepath.Join(home, "kit")
	if err := os.MkdirAll(filepath.Join(folder, "programs", "bench"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": home, "USER": "plantedperson", "LOGNAME": "plantedperson", "COMPUTERNAME": "planted-host"} {
		t.Setenv(name, value)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$0 of $USER on " + host + " planted-host node9 at 192.0.2.99 fe80::aa:bb:cc:dd\" >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(folder, "programs", "bench", "calls"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	m := &measuring{Report: newReport(t.Context(), testDay), bench: bench{folder: folder, hosts: "node9"}, bee: "/bin/sh", work: t.TempDir()}
	m.measureBar(t.Context(), bar{"calls", measureCalls})
	if log := strings.Join(m.Log, "\n"); !strings.Contains(log, "plantedperson on "+host) {
		t.Fatalf("the plants are not in\n%s", log)
	}
	report.NewScrubber("node9").Scrub(m.Report)
	var out strings.Builder
	if err := report.Write(&out, m.Report); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"planted", "node9", "192.0.2", "fe80", filepath.Dir(home)} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in\n%s", secret, &out)
		}
	}
	if !strings.Contains(out.String(), "<user> on") {
		t.Errorf("the log is lost: %s", &out)
	}
}
