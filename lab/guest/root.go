// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// A mount is a file system to mount; its directory is created too.
type mount struct {
	source, target, fs string
	flags              uintptr
	data               string
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.fs, m.flags, m.data); err != nil {
			return fmt.Errorf("%s on %s: %w", m.fs, m.target, err)
		}
	}
	return nil
}

func mountKernel(*wire.Config) error {
	return mountAll([]mount{
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	})
}

// loadRoot loads the modules that the host put into the initramfs.
func loadRoot(c *wire.Config) error {
	for _, name := range c.Root {
		if err := insert(name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// insert loads one module file. A module that is already loaded is no error.
func insert(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// hostDir is where the host's root file system stays visible without the overlay, with the
// host's /tmp and /run.
const hostDir = "/host"

// mountRoot mounts the overlay and makes it the root. pivot_root does not work on an
// initramfs, so the new root is moved over it. The initramfs's files are removed first,
// because they would occupy memory for ever.
func mountRoot(c *wire.Config) error {
	const lower, rw, root = "/lower", "/rw", "/new"
	options := "trans=virtio,version=9p2000.L,msize=512000,cache=loose"
	err := mountAll([]mount{
		{"root", lower, "9p", unix.MS_RDONLY, options},
		{"tmpfs", rw, "tmpfs", 0, "mode=0755"},
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{rw + "/upper", rw + "/work", root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	over := "lowerdir=" + lower + ",upperdir=" + rw + "/upper,workdir=" + rw + "/work"
	if err := mountAll([]mount{{"overlay", root, "overlay", 0, over}}); err != nil {
		return err
	}
	if err := moveInto(root, lower); err != nil {
		return err
	}
	return dropInitramfs(c, root)
}

func moveInto(root, lower string) error {
	moves := [][2]string{{"/dev", "/dev"}, {"/proc", "/proc"}, {"/sys", "/sys"}, {lower, hostDir}}
	for _, m := range moves {
		if err := os.MkdirAll(root+m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], root+m[1], "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", m[0], err)
		}
	}
	return nil
}

func dropInitramfs(c *wire.Config, root string) error {
	for _, name := range append([]string{"/init", wire.ConfigFile}, c.Root...) {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

func mountSystem(c *wire.Config) error {
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const temporary = unix.MS_NOSUID | unix.MS_NODEV
	err := mountAll([]mount{
		{"tmpfs", "/tmp", "tmpfs", temporary, "mode=1777"},
		{"tmpfs", "/run", "tmpfs", temporary, "mode=0755"},
		{"tmpfs", "/dev/shm", "tmpfs", temporary, "mode=1777"},
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"},
		{"mqueue", "/dev/mqueue", "mqueue", plain, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", plain, ""},
		{"debugfs", "/sys/kernel/debug", "debugfs", plain, ""},
		{"tracefs", "/sys/kernel/tracing", "tracefs", plain, ""},
		{hostDir + c.Tree, "/lib/modules/" + c.Release, "", unix.MS_BIND, ""},
	})
	if err != nil {
		return err
	}
	for name, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/run/lock", 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(runs, 0o755); err != nil {
		return err
	}
	if err := coverHome(); err != nil {
		return err
	}
	return showBuild(c)
}

// coverHome mounts an empty home for root if the user who started the machine cannot read
// the host's.
func coverHome() error {
	if _, err := os.ReadDir("/root"); err == nil || !os.IsPermission(err) {
		return err
	}
	return mountAll([]mount{{"tmpfs", "/root", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0700"}})
}

// showBuild bind-mounts the build folder to its own path if a fresh mount covers that
// path.
func showBuild(c *wire.Config) error {
	if !strings.HasPrefix(c.Build, "/tmp/") && !strings.HasPrefix(c.Build, "/run/") {
		return nil
	}
	return mountAll([]mount{{hostDir + c.Build, c.Build, "", unix.MS_BIND, ""}})
}

// mountOut mounts /out, the only folder whose files remain after the guest's end. Their
// owners and modes are stored as metadata on the host and never applied there.
func mountOut(*wire.Config) error {
	options := "trans=virtio,version=9p2000.L,msize=512000,cache=none"
	if err := mountAll([]mount{{"out", "/out", "9p", unix.MS_NOSUID | unix.MS_NODEV, options}}); err != nil {
		return err
	}
	return unix.Chmod("/out", 0o1777)
}
