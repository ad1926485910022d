// SPDX-License-Identifier: MIT

// Package place finds the files that belong to an installed program.
package place

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FindFile returns the path of a file that belongs to the running program. If the file is
// missing, the error is fs.ErrNotExist and the path is the one in the program's folder.
func FindFile(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return FindFor(self, name)
}

// FindFor is FindFile for the program at a path, which may be a link.
func FindFor(program, name string) (string, error) {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		real = program
	}
	dirs := listDirs(real)
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return filepath.Join(dirs[0], name), &MissingError{Name: name, Dirs: dirs}
}

// listDirs returns the folders of a program's files, in the order of the search: the
// program's own, then lib/skep and lib beside it, as `make install` fills them. The last one
// is also that of a build folder.
func listDirs(program string) []string {
	bin := filepath.Dir(program)
	lib := filepath.Join(filepath.Dir(bin), "lib")
	return []string{bin, filepath.Join(lib, "skep"), lib}
}

// A MissingError says which folders were searched for a file of the program.
type MissingError struct {
	Name string
	Dirs []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not in %s, %s or %s: install the package that has it, or run make", e.Name, e.Dirs[0], e.Dirs[1], e.Dirs[2])
}

// Is makes a MissingError match fs.ErrNotExist.
func (*MissingError) Is(other error) bool { return other == fs.ErrNotExist }
