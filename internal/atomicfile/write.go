// SPDX-License-Identifier: MIT

// Package atomicfile replaces files atomically: every reader, even after a crash, sees either the
// old file or the whole new one. What it did is on the disk when it returns: a crash takes
// nothing back.
package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// folderToDisk is SyncFolder. Tests watch it.
var folderToDisk = SyncFolder

// Write writes a file with these bytes and this mode, which the umask restricts as for
// os.WriteFile. If it fails, the old file is unchanged, unless the folder alone could not be
// written to the disk: then the new file is there, and a crash may bring the old one back.
func Write(name string, b []byte, mode os.FileMode) error {
	err := write(name, b, mode)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, causeOf(err))
	}
	return nil
}

// Rename renames a file or folder that is on the disk, as os.Rename does, so that a crash does
// not bring the old name back. Both names are in the same folder.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return folderToDisk(filepath.Dir(to))
}

// Remove removes a file or an empty folder, as os.Remove does, so that a crash does not bring
// it back.
func Remove(name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return folderToDisk(filepath.Dir(name))
}

// MkdirAll makes a folder, as os.MkdirAll does, so that a crash does not take it away.
func MkdirAll(dir string, mode os.FileMode) error {
	if i, err := os.Stat(dir); err == nil && i.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := MkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, mode); err != nil { // another process may have made it
		return err
	}
	return folderToDisk(parent)
}

// causeOf returns an error without the names of temporary files.
func causeOf(err error) error {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

func write(name string, b []byte, mode os.FileMode) error {
	next := filepath.Join(filepath.Dir(name), fmt.Sprintf(".new-%016x", rand.Uint64()))
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return Rename(f.Name(), name)
}
