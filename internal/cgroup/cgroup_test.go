// SPDX-License-Identifier: MIT

//go:build linux

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindRoot(t *testing.T) {
	const old = "30 1 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	for _, c := range []struct{ name, text, want, err string }{
		{"first", "31 1 0:3 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup", ""},
		{"behind version 1", old + "31 1 0:3 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n", "/sys/fs/cgroup/unified", ""},
		{"version 1 only", old, "", "mount -t cgroup2"},
		{"a container's part", "31 1 0:3 /docker /sys/fs/cgroup rw - cgroup2 none rw\n", "", "as in a container"},
		{"behind a part", "31 1 0:3 /docker /a rw - cgroup2 none rw\n32 1 0:3 / /b rw - cgroup2 none rw\n", "/b", ""},
		{"short", "31 1 - cgroup2 none rw\n", "", "mount -t cgroup2"},
	} {
		got, err := FindRoot(writeText(t, c.text))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if _, err := FindRoot("/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestFindOwn(t *testing.T) {
	if got, err := FindOwn(writeText(t, "4:memory:/x\n0::/job/a b\n")); got != "/job/a b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := FindOwn(writeText(t, "4:memory:/x\n")); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("version 1: %v", err)
	}
}

func TestValuesOfFiles(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, "cgroup.freeze", "1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that the kernel did not make: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.events"), []byte("populated 1\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"populated": "1", "frozen": "0", "": "populated 1"} {
		if got, err := Value(dir, "cgroup.events", key); got != want || err != nil {
			t.Errorf("%q: %q, %v", key, got, err)
		}
	}
	if _, err := Value(dir, "cgroup.events", "froze"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such key: %v", err)
	}
	if err := Write(dir, "cgroup.events", "frozen 1\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := Value(dir, "cgroup.events", "frozen"); got != "1" || err != nil {
		t.Errorf("after a write: %q, %v", got, err)
	}
}
