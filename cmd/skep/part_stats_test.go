// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

const goodLedger = "sms-ledger 1\npartition 1\nstatus 0\ncore 0 calls 17\ncore 0 faults 5\ncore 1 calls 3\nend\n"

func TestLedger(t *testing.T) {
	figures, cores, err := readLedger(strings.NewReader(goodLedger))
	if err != nil || cores != 2 || len(figures) != 2 {
		t.Fatalf("%v, %d cores, %v", figures, cores, err)
	}
	calls := figures[0]
	if calls.Name != "calls" || len(calls.Cores) != 2 || calls.Cores[0] != 17 || calls.Cores[1] != 3 {
		t.Errorf("calls are %v", calls)
	}
	if faults := figures[1]; faults.Name != "faults" || faults.Cores[0] != 5 {
		t.Errorf("faults are %v", faults)
	}
	for _, text := range []string{
		"", "end\n", "sms-ledger 2\nend\n", strings.TrimSuffix(goodLedger, "end\n"),
		"sms-ledger 1\ncore 256 calls 1\nend\n", "sms-ledger 1\ncore 0 calls -1\nend\n", "sms-ledger 1\ncore x calls 1\nend\n",
	} {
		if f, _, err := readLedger(strings.NewReader(text)); err == nil {
			t.Errorf("%q gave %v", text, f)
		}
	}
}

// A ledger is shown as a table or for programs, and what is none is refused by its name.
func TestPartStats(t *testing.T) {
	dir := t.TempDir()
	good, cut := filepath.Join(dir, "good"), filepath.Join(dir, "cut")
	for path, text := range map[string]string{good: goodLedger, cut: "sms-ledger 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line, out string
		code      int
		text      string
	}{
		{"--ledger " + good, "WHAT    CORE 0  CORE 1\ncalls   17      3\nfaults  5\n", 0, ""},
		{"--json --ledger " + good, `[{"name":"calls","cores":[17,3]},{"name":"faults","cores":[5]}]`, 0, ""},
		{"--ledger " + cut, "", cli.Failed, cut + ": this is not a complete ledger of a run"},
		{"--ledger " + dir + "/none", "", cli.Refused, "you have not run a program there yet: " + dir + "/none does not exist"},
		{"--ledger " + good + "/none", "", cli.Failed, "not a directory"},
		{"--ledger " + good + " 1", "", cli.Usage, "one partition or --ledger FILE is expected"},
		{"1 2", "", cli.Usage, "one partition or --ledger FILE is expected"},
	} {
		out, code, text := outputOf(t, append([]string{"part", "stats"}, strings.Fields(c.line)...)...)
		if strings.Contains(c.line, "json") {
			out = strings.Join(strings.Fields(out), "")
		}
		if code != c.code || out != c.out || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %q %q", c.line, code, out, text)
		}
	}
}

// The ledger of the last run is in the user's own folder.
func TestFolderOfLedgers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("XDG_RUNTIME_DIR", dir+"/run")
	if path, err := ledgerOf(3); err != nil || path != dir+"/run/skep/partition-3.ledger" {
		t.Errorf("%q, %v", path, err)
	}
	if info, err := os.Stat(dir + "/run/skep"); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	if path, err := ledgerOf(3); err != nil || path != dir+"/.cache/skep/partition-3.ledger" {
		t.Errorf("%q, %v", path, err)
	}
	t.Setenv("HOME", "")
	if code, text := cli.ExitCode(second(ledgerOf(3))); code != cli.Refused || !strings.Contains(text, "give --ledger FILE, or set HOME") {
		t.Errorf("%d %s", code, text)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/dev/null")
	if _, err := ledgerOf(3); err == nil {
		t.Error("a folder that cannot be made")
	}
}

func second(_ string, err error) error { return err }

func FuzzLedger(f *testing.F) {
	f.Add(goodLedger)
	f.Fuzz(func(t *testing.T, text string) {
		figures, cores, err := readLedger(strings.NewReader(text))
		for _, figure := range figures {
			if err == nil && len(figure.Cores) > cores {
				t.Errorf("%d cores, and %v", cores, figure)
			}
		}
	})
}
