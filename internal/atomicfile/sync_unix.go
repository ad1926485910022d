// SPDX-License-Identifier: MIT

//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// SyncFolder returns when the names in a folder are on the disk: fsync of a file does not write
// the name that it has. A file system that cannot do that for folders, which it says by EINVAL
// or ENOTSUP, writes them in its own time, and so does any one for a folder that this user may
// change and not read.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
