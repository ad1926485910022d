// SPDX-License-Identifier: MIT

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/hub"
)

// Wrong words of the commands about standbys are usage errors, and what a hub cannot do it says.
func TestStandbyCommands(t *testing.T) {
	t.Setenv(tokenVariable, "")
	dir := filepath.Join(t.TempDir(), "hub")
	openHub(t, dir)
	for _, line := range []string{"standby", "standby nothing", "standby token x", "standby show x", "standby promote x", "standby forget x",
		"up --standby host", "up --standby :1", "up --token-file x", "up --standby h:1 --alone", "up --standby h:1"} {
		words := append(strings.Fields(line), "--state", filepath.Join(t.TempDir(), "second"))
		if line == "standby" {
			words = words[:1]
		}
		if _, code, text := outputOf(t, words...); code != 2 || text == "" {
			t.Errorf("%q: exit code %d, %q", line, code, text)
		}
	}
	if out, code, text := outputOf(t, "standby", "show", "--state", dir); code != 0 || !strings.HasPrefix(out, "this hub has no standby") {
		t.Errorf("%d %q %q", code, out, text)
	}
	out, code, _ := outputOf(t, "standby", "token", "--state", dir)
	if code != 0 || !strings.HasPrefix(out, tokenVariable+"=skep1.") || !strings.Contains(out, " skep up --standby ") {
		t.Errorf("%d %q", code, out)
	}
	if _, code, text := outputOf(t, "standby", "promote", "--state", dir); code != 1 || !strings.Contains(text, "this is the hub already") {
		t.Errorf("%d %q", code, text)
	}
	if out, code, text := outputOf(t, "standby", "forget", "--state", dir); code != 0 || out != "" {
		t.Errorf("%d %q %q", code, out, text)
	}
	if _, code, _ := outputOf(t, "standby", "show", "--state", t.TempDir()); code != 3 {
		t.Errorf("without a hub: %d", code)
	}
}

// What is printed answers what would be lost.
func TestStandbyIsDescribed(t *testing.T) {
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	for want, i := range map[string]hub.StandbyInfo{
		"the standby at b:1 has everything":                                                                                           {Address: "b:1", State: hub.StandbyWhole},
		"the standby at b:1 does not have everything yet: the copy has begun":                                                         {Address: "b:1", State: hub.StandbyCopies},
		"the standby at b:1 is away: what this hub accepts now is on this machine alone":                                              {Address: "b:1", State: hub.StandbyAway},
		"this machine stands by for the hub at a:1, and has not reached it":                                                           {Standby: true, Hub: "a:1", State: hub.StandbyAway},
		"this machine stands by for the hub at a:1, and lost it at 2026-11-30 12:00:00: what the hub accepted after that is not here": {Standby: true, Hub: "a:1", State: hub.StandbyAway, Since: since},
	} {
		if got := describeStandby(i); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
