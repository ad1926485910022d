// SPDX-License-Identifier: MIT

package hub

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// giveToOwner gives a folder and what is in it to the owner of another one, if root restores
// the state of a service, which has an account of its own.
func giveToOwner(dir, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
