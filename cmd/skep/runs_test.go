// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/detach"
	"skep/internal/cli"
)

// makeRun records a run that ended. Its holder is gone, so without an end it is lost.
func makeRun(t *testing.T, all detach.Runs, v detach.Record, output string) string {
	t.Helper()
	id, err := all.Create()
	if err != nil {
		t.Fatal(err)
	}
	v.ID = id
	if err := all.Write(v); err != nil {
		t.Fatal(err)
	}
	log, err := detach.OpenLog(all.Dir(id))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Write([]byte(output)); err != nil {
		t.Fatal(err)
	}
	return id
}

// runOf is a command about detached runs: its options and words, and what it must do.
type runOf struct {
	line      string
	code      int
	out, text string
}

func (r *runOf) check(t *testing.T, state string) {
	t.Helper()
	var out, text string
	var code int
	said := printedBy(t, &os.Stderr, func() { out, code, text = outputOf(t, append(strings.Fields(r.line), "--state", state)...) })
	if code != r.code || out != r.out || said+text != r.text {
		t.Errorf("skep %s: %d, %q, %q; not %d, %q, %q", r.line, code, out, said+text, r.code, r.out, r.text)
	}
}

func TestRunsAndAttach(t *testing.T) {
	state := t.TempDir()
	all := detach.Open(state)
	for _, r := range []runOf{
		{"runs", 0, "ID  STATE  STARTED  COMMAND\n", ""},
		{"runs --json", 0, "[]\n", ""},
		{"attach", cli.Unreachable, "", detach.ErrNone.Error()},
	} {
		r.check(t, state)
	}
	began := time.Now().Add(-90 * time.Minute)
	end := began.Add(time.Minute)
	good := makeRun(t, all, detach.Record{Words: []string{"./pi", "8"}, Started: began, Ended: &end}, "3.14\n")
	bad := makeRun(t, all, detach.Record{Words: []string{"./fft"}, Started: began.Add(30 * time.Minute), Ended: &end, Exit: 7, Why: "its lease ended"}, "half\n")
	lost := makeRun(t, all, detach.Record{Words: []string{"./ca\x1bve"}, Started: began.Add(89 * time.Minute)}, "")
	const isLost = "the process of skep that held it was killed, or the machine started again"
	for _, r := range []runOf{
		{"attach " + good, 0, "3.14\n", ""},
		{"attach " + bad, 7, "half\n", "skep: run " + bad + ": its lease ended\n"},
		{"attach " + lost, cli.Failed, "", "run " + lost + " is lost: " + isLost},
		{"attach", cli.Failed, "", "run " + lost + " is lost: " + isLost}, // the latest
		{"runs --end " + good, cli.Failed, "", "run " + good + " has ended already"},
		{"runs --forget " + lost, 0, "", ""},
		{"attach", 7, "half\n", "skep: run " + bad + ": its lease ended\n"},
		{"runs", 0, "ID" + strings.Repeat(" ", len(good)) + "STATE   STARTED  COMMAND\n" +
			good + "  exit 0  1 h ago  ./pi 8\n" + bad + "  exit 7  1 h ago  ./fft\n", ""},
	} {
		r.check(t, state)
	}
	checkUsage(t, "runs --state "+state+" x", `"x" is not expected`)
	checkUsage(t, "attach --state "+state+" "+good+" more", `"more" is not expected`)
	checkUsage(t, "runs --state "+state+" --end a --forget b", "give either --end or --forget")
	for _, line := range []string{"attach none", "runs --end none", "runs --forget none"} {
		if _, code, text := outputOf(t, append(strings.Fields(line), "--state", state)...); code != cli.Unreachable || !strings.Contains(text, "no such detached run") {
			t.Errorf("skep %s: %d, %s", line, code, text)
		}
	}
	out, _, _ := outputOf(t, "runs", "--json", "--state", state)
	var list []detach.Record
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[0].ID != good || list[1].Exit != 7 || list[1].Why != "its lease ended" {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(all.Dir(good), "record.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, text := outputOf(t, "attach", good, "--state", state); code != cli.Failed {
		t.Errorf("a damaged record: %d, %s", code, text)
	}
}

func checkUsage(t *testing.T, line, want string) {
	t.Helper()
	if _, code, text := outputOf(t, strings.Fields(line)...); code != cli.Usage || !strings.Contains(text, want) {
		t.Errorf("skep %s: %d, %s", line, code, text)
	}
}
