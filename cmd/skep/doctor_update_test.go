// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
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
	if c := appliedResult(list); c.State != checkOK || c.Found != "2 are applied" {
		t.Errorf("%+v", c)
	}
	list[0].Advised = true
	if c := appliedResult(list); c.State != checkBad || !strings.Contains(c.Found, "inside a") {
		t.Errorf("%+v", c)
	}
}
