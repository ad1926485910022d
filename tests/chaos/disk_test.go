// SPDX-License-Identifier: MIT

package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// diskBytes is what a disk holds: the ledger alone needs 342 MiB.
const diskBytes = "600m"

// mountDisk mounts a disk of its own at dir.
func mountDisk(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+diskBytes+",mode=711"); err != nil {
		t.Fatalf("a small disk at %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("the disk at %s stays: %v", dir, err)
		}
	})
}

// fillDisk leaves no byte on a disk, until the function that it returns is called.
func fillDisk(t *testing.T, dir string) func() {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 1<<20); len(b) > 0; {
		if _, err = f.Write(b); err != nil {
			b = b[:len(b)/2] // the last bytes too
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}
