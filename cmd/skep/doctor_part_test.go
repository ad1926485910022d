// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a machine lacks for lending cores is named, with a remedy, and does not make skep doctor fail.
func TestCheckLending(t *testing.T) {
	put := func(root, name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const clock = "sys/devices/system/clocksource/clocksource0/current_clocksource"
	for want, files := range map[string]map[string]string{
		"Xen":             {"sys/hypervisor/type": "xen\n", clock: "tsc\n"},
		`source is "kvm-`: {clock: "kvm-clock\n"},
		`source is ""`:    {},
		"not loaded":      {clock: "tsc\n"},
	} {
		root := t.TempDir()
		for name, text := range files {
			put(root, name, text)
		}
		if c := checkLending(root); c.State != checkNote || c.Cure == "" || !strings.Contains(c.Found, want) {
			t.Errorf("want %q: %+v", want, c)
		}
	}
}
