// SPDX-License-Identifier: MIT

//go:build linux

// Package cgroup finds and writes the kernel's control groups of version 2, see cgroups(7).
package cgroup

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Files that name the hierarchies and the groups of this process.
const (
	Mounts = "/proc/self/mountinfo"
	Self   = "/proc/self/cgroup"
)

// FindRoot returns where the whole hierarchy is mounted. mounts is Mounts, or a file like it.
func FindRoot(mounts string) (string, error) {
	f, err := os.Open(mounts)
	if err != nil {
		return "", err
	}
	defer f.Close()
	in, parts := bufio.NewScanner(f), 0
	for in.Scan() {
		head, tail, _ := strings.Cut(in.Text(), " - ")
		fields := strings.Fields(head)
		if len(fields) <= 4 || !strings.HasPrefix(tail, "cgroup2 ") {
			continue
		}
		if fields[3] == "/" {
			return fields[4], nil
		}
		parts++
	}
	if err := in.Err(); err != nil {
		return "", err
	}
	if parts > 0 {
		return "", errors.New("only a part of the version 2 cgroups is mounted, as in a container")
	}
	return "", errors.New("no version 2 cgroups are mounted: mount -t cgroup2 none /sys/fs/cgroup")
}

// ErrNone says that a process is in no group of this hierarchy.
var ErrNone = errors.New("the process is in no control group of version 2")

// FindOwn returns a process's group, below the hierarchy's root. own is Self, or a file like it.
func FindOwn(own string) (string, error) {
	text, err := os.ReadFile(own)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, nil
		}
	}
	return "", ErrNone
}

// Write writes a file of the group dir. The file must exist, because the kernel makes it. It is
// no os.File: that would take EAGAIN, which memory.reclaim answers if there was less to reclaim,
// for a file to wait for, and these can be polled, so it would wait for ever.
func Write(dir, name, text string) error {
	path := filepath.Join(dir, name)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Write(fd, []byte(text))
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// Value returns the value of a key of a file like cgroup.events, or of a file with one value if
// key is empty.
func Value(dir, name, key string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value := strings.TrimSpace(line); key == "" {
			return value, nil
		}
		if word, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word == key {
			return value, nil
		}
	}
	return "", &os.PathError{Op: "find " + key + " in", Path: filepath.Join(dir, name), Err: os.ErrNotExist}
}
