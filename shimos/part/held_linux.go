// SPDX-License-Identifier: MIT

package part

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HeldFolder has a socket for each kernel whose console a process holds: its name is the
// partition's number. Whoever changes the folder holds a lock in it.
const HeldFolder = "/run/skep-linux"

const (
	heldLock    = "lock"
	heldTimeout = 10 * time.Second
)

// A Held describes a kernel whose console a process holds.
type Held struct {
	Version int    `json:"version"`
	ID      uint32 `json:"id"` // of its partition
	Name    string `json:"name,omitempty"`
	PID     int    `json:"pid"` // of the process
}

// An End is how a kernel ended, as the command that booted it would have ended.
type End struct {
	Code int    `json:"code"`           // exit code
	Text string `json:"text,omitempty"` // error
	Note string `json:"note,omitempty"` // without an error
}

// A socket is the Holder's end of its path.
type socket struct {
	l         *net.UnixListener
	dir, path string
}

// lockFolder makes a folder for root alone, and locks it.
func lockFolder(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, heldLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// listenIn makes the socket of a partition. One of a process that was killed is replaced.
func listenIn(dir string, id uint32) (*socket, error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, &RefusedError{fmt.Sprintf("the folder for its console: %v", err)}
	}
	defer lock.Close()
	path := socketPath(dir, id)
	if c, _, err := dialHeld(path); err == nil {
		return nil, errors.Join(&RefusedError{fmt.Sprintf("nobody has read how the last kernel on partition %d ended: 'skep part console %d' shows it", id, id)}, c.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, &RefusedError{fmt.Sprintf("the socket for its console: %v", err)}
	}
	l.SetUnlinkOnClose(false) // see close
	return &socket{l, dir, path}, nil
}

func socketPath(dir string, id uint32) string {
	return filepath.Join(dir, strconv.FormatUint(uint64(id), 10))
}

// close removes the socket before it closes it, so that nobody takes its Holder for killed.
func (s *socket) close() error {
	lock, err := lockFolder(s.dir)
	if err != nil {
		return errors.Join(err, s.l.Close())
	}
	return errors.Join(os.Remove(s.path), s.l.Close(), lock.Close())
}

// dialHeld connects to a Holder and reads what it holds.
func dialHeld(path string) (*net.UnixConn, Held, error) {
	var h Held
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, h, err
	}
	c.SetReadDeadline(time.Now().Add(heldTimeout)) // it may be stopped, and the folder is locked
	kind, data, err := readFrame(c)
	c.SetReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &RefusedError{fmt.Sprintf("the process that holds the console at %s does not answer", path)}
	}
	if err == nil && (kind != frameInfo || json.Unmarshal(data, &h) != nil) {
		err = errFrame
	}
	if err == nil && h.Version != heldVersion {
		err = &RefusedError{fmt.Sprintf("process %d, which holds the console of partition %d, is of another version of skep", h.PID, h.ID)}
	}
	if err != nil {
		return nil, h, errors.Join(err, c.Close())
	}
	return c, h, nil
}

// A KilledError is the end of a kernel whose Holder is gone without a word.
type KilledError struct{ ID uint32 }

func (e *KilledError) Error() string {
	return fmt.Sprintf("the process that held the console of partition %d was killed, and its kernel ended with it: the output that nobody has read is lost", e.ID)
}

// A Console is a kernel's console that this process may show.
type Console struct {
	Held
	conn *net.UnixConn
}

// Close leaves the console.
func (c *Console) Close() error { return c.conn.Close() }

// FindConsole connects to the console of the partition that a word names, by number or
// name; an empty word is the only one. A nil one says that no process holds it.
func FindConsole(dir, word string) (*Console, error) {
	all, err := findAll(dir, word)
	if err != nil {
		return nil, err
	}
	var numbers []string
	for _, c := range all {
		numbers = append(numbers, strconv.FormatUint(uint64(c.ID), 10))
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	for _, c := range all {
		c.Close()
	}
	return nil, &RefusedError{fmt.Sprintf("there are kernels on partitions %s: say whose console", strings.Join(numbers, ", "))}
}

// findAll connects to all that a word names. A socket of a process that was killed goes,
// and is an error if there is no other.
func findAll(dir, word string) (all []*Console, err error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var killed error
	for _, n := range names {
		id, err := strconv.ParseUint(n.Name(), 10, 32)
		if err != nil {
			continue
		}
		path := filepath.Join(dir, n.Name())
		c, held, err := dialHeld(path)
		switch {
		case errors.Is(err, unix.ECONNREFUSED) && (word == "" || word == n.Name()):
			killed = errors.Join(&KilledError{uint32(id)}, os.Remove(path))
		case err != nil && (word == "" || word == n.Name()):
			killed = err
		case err == nil && word != "" && word != n.Name() && word != held.Name:
			c.Close()
		case err == nil:
			all = append(all, &Console{held, c})
		}
	}
	if len(all) > 0 {
		killed = nil
	}
	slices.SortFunc(all, func(a, b *Console) int { return int(int64(a.ID) - int64(b.ID)) })
	return all, killed
}
