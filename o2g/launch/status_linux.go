// SPDX-License-Identifier: MIT

package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pagesIn reads the status pages in a folder. A missing folder has none.
func pagesIn(path string) ([]Endpoint, error) {
	folder, err := openFolder(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return readFolder(folder)
}

// openFolder opens a folder of status pages if only this user can write to it. In
// /dev/shm any user may create a folder of that name, and rename it while it is
// read. So callers use the descriptor that is opened here, never the name.
func openFolder(path string) (*os.File, error) {
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	foreign := errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, os.ErrPermission)
	if err != nil && !foreign {
		return nil, err
	}
	if err == nil {
		info, err := folder.Stat()
		if err == nil && isOwn(info) && info.Mode().Perm()&0o077 == 0 {
			return folder, nil
		}
		folder.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s is ignored: it is not a directory that only you can access, so endpoints don't use it either; remove it, or unset XDG_RUNTIME_DIR if that points to it", path)
}

func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

func readFolder(folder *os.File) ([]Endpoint, error) {
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []Endpoint
	for _, name := range names {
		if pid, ok := pageOf(name); ok {
			if e, ok := readPage(folder, name, pid); ok {
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// readPage reads a live endpoint's status page, and removes a page that a killed
// process left. It ignores everything that is not a regular file of this user.
func readPage(folder *os.File, name string, pid int) (Endpoint, bool) {
	// Without O_NONBLOCK, open() of a FIFO would block.
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return Endpoint{}, false
	}
	page := os.NewFile(uintptr(fd), name)
	defer page.Close()
	info, err := page.Stat()
	if err != nil || !info.Mode().IsRegular() || !isOwn(info) {
		return Endpoint{}, false
	}
	if isAbandoned(fd) {
		_ = unix.Unlinkat(int(folder.Fd()), name, 0) // another reader may have removed it
		return Endpoint{}, false
	}
	return parsePage(pid, page)
}

// isAbandoned reports whether a page's process has ended, which released its lock.
func isAbandoned(page int) bool {
	return unix.Flock(page, unix.LOCK_SH|unix.LOCK_NB) == nil
}
