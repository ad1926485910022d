// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command that skep doctor gives for a missing module works as typed: it names a file
// for this kernel, or says that there is none.
func TestDoctorNamesAModuleThatLoads(t *testing.T) {
	build := t.TempDir()
	writeModule(t, filepath.Join(build, "kmod", "6.1", "trial", "trial.ko"), "6.1.0-50-amd64")
	writeModule(t, filepath.Join(build, "kmod", "6.12", "trial", "trial.ko"), "6.12.9-amd64")
	t.Setenv("PATH", "")
	for release, want := range map[string]string{
		"6.12.9-amd64":   "insmod " + filepath.Join(build, "kmod", "6.12", "trial", "trial.ko"),
		"6.1.0-50-amd64": "insmod " + filepath.Join(build, "kmod", "6.1", "trial", "trial.ko"),
		"6.1.0-5":        "build trial.ko for Linux 6.1.0-5: the package skep-dkms does it, or make kmod for Debian's kernels",
		"":               "build trial.ko for Linux ",
	} {
		if got := loadCure("trial", release, build); !strings.HasPrefix(got, want) {
			t.Errorf("Linux %q: %s, want %s", release, got, want)
		}
	}
}

// writeModule writes an object with the section that modinfo(8) reads.
func writeModule(t *testing.T, file, release string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("gcc", "-c", "-x", "c", "-o", file, "-")
	cc.Stdin = strings.NewReader(`static const char info[] __attribute__((section(".modinfo"), used)) = "license=GPL\0vermagic=` + release + ` SMP mod_unload";`)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
