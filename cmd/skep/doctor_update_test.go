// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update"
)

// What a kernel lacks for updates is named, with a remedy, and does not make skep doctor
// fail; nor does the advice to reboot.
func TestCheckUpdates(t *testing.T) {
	const livepatch, ftrace = "sys/kernel/livepatch/x", "proc/sys/kernel/ftrace_enabled"
	for want, files := range map[string]map[string]string{
		"without livepatch": {ftrace: "1\n"},
		"switched off":      {livepatch: "", ftrace: "0\n"},
		"not loaded":        {livepatch: "", ftrace: "1\n"},
		"locked down (integrity): it loads signed modules only": {livepatch: "", ftrace: "1\n", "sys/kernel/security/lockdown": "none [integrity] confidentiality\n"},
	} {
		root := t.TempDir()
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c := checkUpdates(root); c.State != checkNote || c.Cure == "" || !strings.Contains(c.Found, want) {
			t.Errorf("want %q: %+v", want, c)
		}
	}
	list := []update.Status{{Name: "a", State: "loaded"}, {Name: "b", State: "trial"}, {Name: "c", State: "committed"}}
	keep := &update.Keep{Dir: filepath.Join(t.TempDir(), "none")}
	if c := appliedResult(list, keep); c.State != checkOK || c.Found != "2 are applied" {
		t.Errorf("%+v", c)
	}
	off := offStore(t)
	if c := appliedResult(list, off); c.State != checkBad || !strings.HasPrefix(c.Found, "2 are applied; fix is turned off: 2 boots") {
		t.Errorf("%+v", c)
	}
	list[0].Advised = true
	if c := appliedResult(list, keep); c.State != checkBad || !strings.Contains(c.Found, "inside a") {
		t.Errorf("%+v", c)
	}
}

// offStore returns a store whose update fix was turned off.
func offStore(t *testing.T) *update.Keep {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "fix.json"), []byte(`{"Name":"fix","Off":{"Why":"2 boots with [fix] failed"}}`), 0o600),
		os.WriteFile(filepath.Join(dir, "good.json"), []byte(`{"Name":"good","Included":"another kernel"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	return &update.Keep{Dir: dir}
}

// An update that was turned off is named, with what to do, until root forgets it.
func TestUpdateThatIsTurnedOff(t *testing.T) {
	keep := offStore(t)
	keepIn(t, keep.Dir)
	var b strings.Builder
	const want = "fix is turned off: 2 boots with [fix] failed. 'skep service restore --retry' tries again, 'skep update revert fix' forgets it\n"
	if err := showOff(&b, keep); err != nil || b.String() != want {
		t.Errorf("%q, %v", b.String(), err)
	}
	if off, err := forgetOff("good"); off || err != nil {
		t.Errorf("one that is restored: %v, %v", off, err)
	}
	if off, err := forgetOff("fix"); !off || err != nil || keep.WhyOff("fix") != nil || len(filesBelow(t, keep.Dir)) != 1 {
		t.Errorf("%v, %v", off, err)
	}
}
