// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tick        = 20 * time.Millisecond
	lockPatient = 20 * time.Second
)

func tryLock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// wait locks path. It calls waiting once if the lock is not free.
func wait(ctx context.Context, path string, waiting func()) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for first := true; !tryLock(f); first = false {
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for the lock %s: %w", path, ctx.Err())
		case <-time.After(tick):
		}
	}
	return f, nil
}

// waitLock locks path, which other processes lock only briefly.
func waitLock(path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockPatient)
	defer cancel()
	return wait(ctx, path, func() {})
}

// withLock runs f while no other process changes the folders of machines.
func withLock(build string, f func() error) error {
	if err := os.MkdirAll(filepath.Dir(rootDir(build)), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(rootDir(build), 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	lock, err := waitLock(filepath.Join(rootDir(build), rootLock))
	if os.IsPermission(err) {
		return fmt.Errorf("the machines of this build folder are another user's: %w", err)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return f()
}

// shortPath returns a short path of dir for a socket below it, however long dir's own path
// is: the path of a socket has at most 107 bytes.
func shortPath(dir string) (path string, done func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName), func() { unix.Close(fd) }, nil
}

func listen(dir string) (*net.UnixListener, error) {
	path, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the whole folder is removed at once
	return l, os.Chmod(filepath.Join(dir, socketName), 0o600)
}

func dial(dir string) (*net.UnixConn, error) {
	path, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}

// lastLine returns the last non-empty line of a file, at most 300 bytes of it.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text = bytes.TrimSpace(text)
	line := string(text[bytes.LastIndexByte(text, '\n')+1:])
	return line[:min(len(line), 300)]
}

// FreeMemory returns the memory available to programs, in MiB.
func FreeMemory() (int, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "MemAvailable:")
	words := strings.Fields(rest)
	if !found || len(words) == 0 {
		return 0, fmt.Errorf("/proc/meminfo does not say how much memory is free")
	}
	kib, err := strconv.Atoi(words[0])
	return kib >> 10, err
}
