// SPDX-License-Identifier: MIT

package update

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/cgroup"
)

// CgroupID returns the number of a cgroup. The word is a folder, a path below the
// hierarchy's root, or the last name of a path if only one cgroup has it.
func CgroupID(word string) (uint64, error) {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		return 0, err
	}
	for _, path := range []string{word, filepath.Join(root, word)} {
		var s unix.Statfs_t
		if filepath.IsAbs(path) && unix.Statfs(path, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC {
			return inodeOf(path)
		}
	}
	return findCgroup(root, word)
}

// findCgroup returns the number of the only cgroup below root with that name.
func findCgroup(root, word string) (uint64, error) {
	var found []string
	err := eachCgroup(root, func(path string, _ uint64) bool {
		if filepath.Base(path) == word {
			found = append(found, path)
		}
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, fmt.Errorf("there is no cgroup %q below %s", word, root)
	case len(found) > 1:
		return 0, fmt.Errorf("several cgroups are named %q: say %s or %s", word, found[0], found[1])
	}
	return inodeOf(found[0])
}

func inodeOf(path string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, fmt.Errorf("%s is not a cgroup: name its folder", path)
	}
	return s.Ino, nil
}

// CgroupPath returns the path of the cgroup with that number, below the root of the
// hierarchy, or "" if it no longer exists.
func CgroupPath(id uint64) (found string) {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		return ""
	}
	_ = eachCgroup(root, func(path string, ino uint64) bool {
		if ino == id {
			found = "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		}
		return found == ""
	})
	return found
}

// eachCgroup visits all cgroups until visit returns false.
func eachCgroup(root string, visit func(path string, ino uint64) bool) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // removed in the meantime
		}
		ino, err := inodeOf(path)
		if err == nil && !visit(path, ino) {
			return filepath.SkipAll
		}
		return nil
	})
}

// Boottime returns the kernel's CLOCK_BOOTTIME, in ns.
func Boottime() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
