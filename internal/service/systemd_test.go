// SPDX-License-Identifier: MIT

//go:build linux

package service

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnitWordsAreQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"plain": `"plain"`, "two words": `"two words"`, `a"b\c`: `"a\"b\\c"`, "50%n$HOME": `"50%%n$$HOME"`,
		"a\nExecStart=/bin/sh": `"a\x0aExecStart=/bin/sh"`, "": `""`, "ä": `"ä"`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s instead of %s", word, got, want)
		}
	}
	if got := CommandLine("/a b/$x", "$x"); got != `"/a b/$x" "$$x"` {
		t.Error(got)
	}
}

func TestSystemdVersion(t *testing.T) {
	for text, want := range map[string]int{"systemd 252 (252.38-1~deb12u1)\n+PAM": 252, "systemd 257": 257, "": 0, "OpenRC": 0} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %d instead of %d", text, got, want)
		}
	}
}

// Files of an administrator are neither replaced nor removed.
func TestFilesOfOthersStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "x.service")
	s := &Systemd{Out: io.Discard}
	for i, want := range []bool{true, false} {
		if changed, err := s.WriteFile(path, "[Unit]\n"); err != nil || changed != want {
			t.Errorf("write %d: %v, %v", i, changed, err)
		}
	}
	if err := os.WriteFile(path, []byte("[Unit]\n# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if changed, err := s.WriteFile(path, "[Unit]\n"); err == nil || changed || !strings.Contains(err.Error(), "was not written by skep") {
		t.Errorf("a file of another was replaced: %v, %v", changed, err)
	}
	if gone, err := s.RemoveFile(path); err == nil || gone {
		t.Errorf("a file of another was removed: %v, %v", gone, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
