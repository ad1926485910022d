// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What every program sees of a machine, read-only. Programs are static; they
// may want a shell, time zones, host names, the shape of the hardware.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys"}

var systemDevices = []string{"null", "zero", "full", "random", "urandom"}

// scratchBytes bounds /tmp and /dev/shm of a program, which are in memory. Its
// TMPDIR is on the disk.
const scratchBytes = "64m"

// A newRoot is a file system under construction at a directory, in the guard's
// own namespace of mounts.
type newRoot struct {
	at    string
	plain uint64 // attributes that each part of the system gets
}

// enterRoot replaces all that this process sees by what b allows. dir, which
// is one of b.Write, is where the new root is built.
func enterRoot(b *bounds, dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts cannot be made private: %w", err)
	}
	r := &newRoot{dir, unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	// Programs may be other users. Theirs is the umask that the agent was given.
	defer unix.Umask(unix.Umask(0o022))
	own, err := r.takeOwn(b)
	if err != nil {
		return err
	}
	if err := r.build(b); err != nil {
		return err
	}
	if err := r.hideDirs(b.Hide, own); err != nil {
		return err
	}
	if err := r.pivot(); err != nil {
		return err
	}
	if b.User {
		// Namespaces inside would give back rights to what they hold.
		os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}
	if !b.Network {
		return raiseLoopback()
	}
	return nil
}

// A part is a mount that is kept open until it is attached to the new root.
type part struct {
	path string
	fd   int // -1: a link
	dir  bool
}

// takeOwn opens what the program may use below hidden directories, such as its own folder,
// because a hidden directory is covered completely.
func (r *newRoot) takeOwn(b *bounds) ([]part, error) {
	var own []part
	for _, path := range append(slices.Clone(b.Write), b.Read...) {
		if !slices.ContainsFunc(b.Hide, func(dir string) bool { return isWithin(path, dir) }) {
			continue
		}
		p, err := cloneMounts(path, r.mountAttr(b, path))
		if err != nil {
			return nil, err
		}
		own = append(own, p)
	}
	return own, nil
}

// mountAttr returns the mount attributes of a path that b allows. Device files work if the
// owner allowed a path below /dev.
func (r *newRoot) mountAttr(b *bounds, path string) uint64 {
	attr := r.plain
	if slices.Contains(b.Write, path) {
		attr &^= unix.MOUNT_ATTR_RDONLY
	}
	if isWithin(path, "/dev") {
		attr &^= unix.MOUNT_ATTR_NODEV
	}
	return attr
}

// cloneMounts makes a copy of the mounts at a path, with attributes.
func cloneMounts(path string, attr uint64) (part, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return part{}, fmt.Errorf("%s cannot be taken into a new root: %w", path, err)
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr})
	if err != nil {
		return part{}, fmt.Errorf("%s cannot be made read-only: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return part{}, err
	}
	return part{path, fd, st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// put gives a part the place in the new root that it had in the old one.
func (r *newRoot) put(p part) error {
	to := r.at + p.path
	if p.fd < 0 {
		link, err := os.Readlink(p.path)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	}
	defer unix.Close(p.fd)
	if _, err := os.Lstat(to); err != nil {
		if err := makePlace(to, p.dir); err != nil {
			return fmt.Errorf("%s has no place in a new root: %w", p.path, err)
		}
	}
	err := unix.MoveMount(p.fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("%s cannot be mounted: %w", p.path, err)
	}
	return nil
}

func makePlace(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// build puts the system and what the owner allowed into a new root.
func (r *newRoot) build(b *bounds) error {
	parts, err := r.cloneParts(b)
	if err != nil {
		return err
	}
	if err := mountMemory(r.at, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, name := range []string{"/tmp", "/dev/shm"} {
		if b.Job != "" {
			break // they are among the parts
		}
		if err := os.MkdirAll(r.at+name, 0o755); err != nil {
			return err
		}
		if err := mountMemory(r.at+name, "mode=1777,size="+scratchBytes); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := r.put(p); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, r.at+"/dev/"+name); err != nil {
			return err
		}
	}
	return r.mountProc()
}

// cloneParts opens all parts, before the new root covers the directory at which it is built.
func (r *newRoot) cloneParts(b *bounds) ([]part, error) {
	var parts []part
	clone := func(path string, attr uint64) error {
		p, err := cloneMounts(path, attr)
		parts = append(parts, p)
		return err
	}
	for _, name := range systemDevices {
		// A device is written to on a read-only file system too.
		if err := clone("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return nil, err
		}
	}
	for _, d := range jobDirs {
		if b.Job == "" {
			break
		}
		p, err := cloneMounts(filepath.Join(b.Job, d.name), r.plain&^unix.MOUNT_ATTR_RDONLY)
		p.path = d.guest
		parts = append(parts, p)
		if err != nil {
			return nil, err
		}
	}
	if b.Program != "" {
		p, err := cloneMounts(b.Program, r.plain)
		p.path = programPlace
		parts = append(parts, p)
		if err != nil {
			return nil, err
		}
	}
	hidden := func(path string) bool {
		return slices.ContainsFunc(b.Hide, func(dir string) bool { return isWithin(path, dir) })
	}
	list := slices.Concat(systemDirs, b.Read, b.Write)
	slices.SortStableFunc(list, func(x, y string) int { return strings.Count(x, "/") - strings.Count(y, "/") })
	for _, path := range list {
		info, err := os.Lstat(path)
		switch {
		case hidden(path) || errors.Is(err, os.ErrNotExist) && slices.Contains(systemDirs, path):
			continue
		case err == nil && info.Mode()&os.ModeSymlink != 0: // /bin is usr/bin
			parts = append(parts, part{path: path, fd: -1})
			continue
		}
		if err := clone(path, r.mountAttr(b, path)); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func mountMemory(at, options string) error {
	err := unix.Mount("skep", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
	if err != nil {
		return fmt.Errorf("tmpfs cannot be mounted: %w", err)
	}
	return nil
}

// mountProc mounts a /proc of this namespace. Inside a container that hides
// parts of its own /proc, the kernel refuses this.
func (r *newRoot) mountProc() error {
	if err := os.MkdirAll(r.at+"/proc", 0o755); err != nil {
		return err
	}
	err := unix.Mount("proc", r.at+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err != nil {
		return fmt.Errorf("/proc cannot be mounted: %w", err)
	}
	return nil
}

// hideDirs covers directories that are in the new root by being below a part, and
// puts into them what a program has there.
func (r *newRoot) hideDirs(dirs []string, own []part) error {
	for _, dir := range dirs {
		mine := slices.ContainsFunc(own, func(p part) bool { return isWithin(p.path, dir) })
		if _, err := os.Lstat(r.at + dir); err != nil && !mine {
			continue
		}
		if err := os.MkdirAll(r.at+dir, 0o755); err != nil {
			return fmt.Errorf("%s cannot be hidden: %w", dir, err)
		}
		if err := mountMemory(r.at+dir, "mode=0755,size=64k"); err != nil {
			return err
		}
	}
	for _, p := range own {
		if err := r.put(p); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(r.at + dir); err != nil {
			continue
		}
		err := unix.MountSetattr(unix.AT_FDCWD, r.at+dir, 0, &unix.MountAttr{Attr_set: r.plain})
		if err != nil {
			return fmt.Errorf("%s cannot be made read-only: %w", dir, err)
		}
	}
	return nil
}

// pivot switches to the new root and unmounts the old one.
func (r *newRoot) pivot() error {
	if err := unix.Chdir(r.at); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("the root cannot be changed: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("the old root cannot be left: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: r.plain})
}

// raiseLoopback enables 127.0.0.1 in the new network namespace.
func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("its loopback interface cannot be set up: %w", err)
	}
	return nil
}
