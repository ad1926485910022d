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

// What cannot be booted is refused before the module is asked for a partition.
func TestPartLinuxRefusals(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		code int
		text string
	}{
		{"", cli.Usage, "--initrd is expected"},
		{"--initrd " + text + " --cpus 1", cli.Usage, "either --on, or --cpus and --mem are expected"},
		{"--initrd " + text + " --on 1 --cpus 1 --mem 1G", cli.Usage, "either --on, or --cpus and --mem are expected"},
		{"--initrd " + text + " more", cli.Usage, "more"},
		{"--initrd " + text + " --kernel " + dir + "/none", cli.Refused, "the kernel, which --kernel names: stat " + dir + "/none: no such file"},
		{"--initrd " + text + " --kernel /dev/zero", cli.Refused, "/dev/zero is not a regular file"},
		{"--initrd " + text + " --kernel " + text, cli.Refused, text + ": it is not a bzImage"},
	} {
		_, code, text := outputOf(t, append([]string{"part", "linux"}, strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d, %q", c.line, code, text)
		}
	}
}
