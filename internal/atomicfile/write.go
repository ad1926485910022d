// SPDX-License-Identifier: MIT

// Package atomicfile replaces files atomically: every reader, even after a crash, sees either the
// old file or the whole new one.
package atomicfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write writes a file with these bytes and this mode, which the umask restricts as for
// os.WriteFile. If it fails, the old file is unchanged.
func Write(name string, b []byte, mode os.FileMode) error {
	err := write(name, b, mode)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, causeOf(err))
	}
	return nil
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
	return os.Rename(f.Name(), name)
}
