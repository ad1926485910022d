// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

// A user without a name is shown as a number.
func TestOwnerOfAPartition(t *testing.T) {
	if got := ownerName(0); got != "root" {
		t.Errorf("user 0 is %q", got)
	}
	if got := ownerName(4000000001); got != "4000000001" {
		t.Errorf("a user without a name is %q", got)
	}
}

// A warning lists five names and the number of the others.
func TestWarningOfLentCPUs(t *testing.T) {
	for names, want := range map[string]string{
		"":              "",
		"a":             "skep: warning: a: they move\n",
		"a b c d e":     "skep: warning: a, b, c, d, e: they move\n",
		"a b c d e f g": "skep: warning: a, b, c, d, e and 2 more: they move\n",
	} {
		if got := printedBy(t, &os.Stderr, func() { warnOf(strings.Fields(names), "they move") }); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

// A command needs the name of a partition only where there are several.
func TestOnlyPartition(t *testing.T) {
	a, b := lent.Info{ID: 1, Name: "a"}, lent.Info{ID: 7}
	if i, err := onlyPartition([]lent.Info{b}); i != b || err != nil {
		t.Errorf("%v, %v", i, err)
	}
	for want, list := range map[string][]lent.Info{"there is no partition: 'skep part create' makes one": nil, "there are partitions 1, 7: say which with --on": {a, b}} {
		_, err := onlyPartition(list)
		if code, text := cli.ExitCode(partError(err)); code != cli.Refused || text != want {
			t.Errorf("%d %q, want %q", code, text, want)
		}
	}
}

// Words are checked before the module is asked.
func TestWordsOfPartitions(t *testing.T) {
	for line, want := range map[string]string{
		"part list x": `"x" is not expected`, "part allow x": `"x" is not expected`, "part release": "one partition is expected", "part release --all x": `"x" is not expected`,
		"part create x": `"x" is not expected`, "part create --cpus 1": "--cpus and --mem are expected", "part create --mem 1G": "--cpus and --mem are expected",
		"part allow --group root --cpus 1": "--group, --cpus and --mem are expected", "part allow --mem 1G --cpus 1": "--group, --cpus and --mem are expected",
		"part allow --mem 1G --group root": "--group, --cpus and --mem are expected", "part allow --group no-such-group --cpus 1 --mem 1G": "there is no group",
		"part create --cpus x --mem 1G": "", "part create --cpus 1 --mem x": "", "part run": "a program is expected",
	} {
		if _, code, text := outputOf(t, strings.Fields(line)...); code != cli.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", line, code, text)
		}
	}
	for name, want := range map[string]uint32{"root": 0, "7": 7, "4294967294": 4294967294} {
		if got, err := groupNumber(name); got != want || err != nil {
			t.Errorf("group %s: %d, %v", name, got, err)
		}
	}
	if _, err := groupNumber("4294967295"); err == nil {
		t.Error("the number of nobody is a group")
	}
	for pid, want := range map[int32]string{0: "-", 12: "12"} {
		if got := pidOf(pid); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
