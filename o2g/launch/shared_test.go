// SPDX-License-Identifier: MIT

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestCheckShared: it leaves no file behind, and names the folder that is missing.
func TestCheckShared(t *testing.T) {
	dir := t.TempDir()
	if err := CheckShared(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	missing := filepath.Join(dir, "shm")
	err := CheckShared(missing)
	if want := "no file can be created in " + missing + " (no such file or directory)"; !errors.Is(err, syscall.ENOENT) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
