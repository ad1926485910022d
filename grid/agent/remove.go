// SPDX-License-Identifier: MIT

package agent

import (
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is os.RemoveAll for trees of programs. os.RemoveAll needs a system function that
// Windows before 10 and Wine 8 lack; there the older one is used.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil {
		return nil
	}
	if !systemIsWindows { // a program may have closed a folder to its own user
		filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(name, 0o700)
			}
			return nil
		})
		return os.RemoveAll(path)
	}
	var dirs []string
	filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, name)
		} else if err == nil {
			os.Remove(name)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		os.Remove(dirs[i])
	}
	if _, gone := os.Lstat(path); os.IsNotExist(gone) {
		return nil
	}
	return err
}
