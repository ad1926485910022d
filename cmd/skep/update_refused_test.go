// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"skep/dynamos/update/pack"
	"skep/internal/cli"
)

// Whatever a command of updates refuses, it ends with the code of refusals: a script tells by it
// what typing the line again will not change.
func TestUpdateRefusalsHaveOneCode(t *testing.T) {
	o := newOffice(t)
	o.pin()
	t.Setenv("SKEP_BUILD", o.path("build"))
	for name, text := range map[string]string{
		"other": "nothing of ours", "other.skepup": "nothing of ours", "other.skeprevert": "nothing of ours",
		"huge.patch": strings.Repeat("x", pack.MaxPatch+1),
	} {
		if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := []string{
		"update build %/huge.patch --kernel 0.1",
		"update inspect %/other.skepup",
		"update apply %/other.skepup --all",
		"update roll %/other.skepup", "update roll %/fix.skepup",
		"update keys new %/alice --no-passphrase",
		"update keys show %/other",
		"update keys rotate %/other -o %/out", "update keys rotate --fleet lab --threshold 1 --add %/other -o %/out",
		"update keys rotate --fleet lab --threshold 3 --add %/alice.pub -o %/out",
		"update keys trust %/other", "update keys revoke SHA256:x",
		"update sign %/other --key %/alice", "update sign %/other.skepup --key %/alice",
		"update sign %/keys --key %/other", "update sign %/keys --add %/other",
		"update sign %/fix.skepup --sign-module %/other",
		"update verify %/other", "update verify %/other.skepup", "update verify %/fix.skepup", "update verify %/keys --keys %/other",
		"update revert %/other.skeprevert",
	}
	if _, err := os.Stat("/dev/dynamos"); err != nil {
		lines = append(lines, "update status", "update status fix", "update commit fix", "update policy fix --all",
			"update revert fix", "update remove fix", "update apply fix --all")
	}
	for _, line := range lines {
		words := strings.Fields(strings.ReplaceAll(line, "%/", o.dir+"/"))
		if _, code, text := outputOf(t, words...); code != cli.Refused {
			t.Errorf("%s: %d, want %d: %s", line, code, cli.Refused, text)
		}
	}
}

// A stored package that is damaged is refused by name, and its file is asked for.
func TestDamagedStoredPackageIsRefused(t *testing.T) {
	o := newOffice(t)
	o.pin()
	o.skep(0, "update sign %s --key %s --sequence 7 --widest all", "fix.skepup", "alice")
	o.skep(0, "update sign %s --revert --sequence 8 --key %s -o %s", "fix.skepup", "alice", "fix.skeprevert")
	if err := newKeep().Remember("fix", []byte("nothing of ours")); err != nil {
		t.Fatal(err)
	}
	if _, text := o.skep(cli.Refused, "update revert %s", "fix.skeprevert"); !strings.Contains(text, "what is stored of fix is damaged") {
		t.Error(text)
	}
}
