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

// wait takes a lock when it is free; waiting is called once if it is not.
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

// waitLock waits for a lock that others have for moments at most.
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

// shortPath gives a path of a few bytes for a socket below dir, however deep dir is: the kernel takes 107.
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
	l.SetUnlinkOnClose(false) // the folder goes as a whole
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

// peerProcess is the process that listens at the other end, which may be stopped.
func peerProcess(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// lastLine is the last line of a file that is not empty, at most 300 bytes.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text = bytes.TrimSpace(text)
	line := string(text[bytes.LastIndexByte(text, '\n')+1:])
	return line[:min(len(line), 300)]
}

// FreeMemory is the memory that programs can still have, in MiB.
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
