// SPDX-License-Identifier: MIT

package update

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/cgroup"
)

// kernelTree is the kernel's hierarchy of control groups, see cgroups(7).
type kernelTree struct{}

// ID returns the number of a cgroup. Unlike CgroupID it takes no other word than the folder.
func (kernelTree) ID(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if !filepath.IsAbs(dir) || s.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, refusef("%s is not the folder of a version 2 cgroup", dir)
	}
	return inodeOf(dir)
}

func (kernelTree) Owner(dir string) (uint32, error) {
	var s unix.Stat_t
	err := unix.Stat(dir, &s)
	return s.Uid, err
}

func (kernelTree) Populated(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 1")
}

// Enter moves a process into a child of its cgroup. The limits of the cgroup hold for the
// child too.
func (kernelTree) Enter(pid int, name string) (string, error) {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		return "", err
	}
	path, err := cgroup.FindOwn(fmt.Sprintf("/proc/%d/cgroup", pid))
	switch {
	case errors.Is(err, cgroup.ErrNone) || err == nil && !filepath.IsAbs(path):
		return "", refusef("process %d is in no version 2 cgroup", pid)
	case err != nil:
		return "", err
	}
	dir := filepath.Join(root, path)
	if filepath.Base(dir) != name {
		dir = filepath.Join(dir, name)
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, move(pid, dir)
}

// Leave moves a process that entered back, and removes the folder if nobody else is in it.
func (kernelTree) Leave(pid int, dir string) error {
	err := move(pid, filepath.Dir(dir))
	_ = os.Remove(dir) // another job may be in it
	return err
}

func move(pid int, dir string) error {
	return cgroup.Write(dir, "cgroup.procs", strconv.Itoa(pid))
}

func (kernelTree) Each(visit func(dir string)) {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		return
	}
	_ = eachCgroup(root, func(dir string, _ uint64) bool { visit(dir); return true })
}
