// SPDX-License-Identifier: MIT

//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestModeIsBeforeTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	name := filepath.Join(t.TempDir(), "file")
	if err := Write(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(name); err != nil || i.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}
