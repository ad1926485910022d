// SPDX-License-Identifier: MIT

// This file owns the table of processes with waiters; reaper.Mutex guards it. The mutex is
// held during a start, so that no child can end before it is in the table.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

var reaper = struct {
	sync.Mutex
	waits map[int]chan syscall.WaitStatus
}{waits: map[int]chan syscall.WaitStatus{}}

// startReaper reaps every child that ends, including orphans. Nothing else in this program
// may wait for a process.
func startReaper() {
	// If one of these signals ended process 1, the kernel would panic. They are
	// caught and not ignored, because programs would inherit ignored signals.
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			reapChildren()
		}
	}()
}

func reapChildren() {
	for {
		var status syscall.WaitStatus
		reaper.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		ended := reaper.waits[pid]
		delete(reaper.waits, pid)
		reaper.Unlock()
		switch {
		case err == syscall.EINTR:
		case pid <= 0:
			return
		case ended != nil:
			ended <- status
		}
	}
}

// A start describes a process to start.
type start struct {
	path  string
	args  []string
	env   []string
	dir   string
	files []*os.File // descriptors 0, 1 and 2
	node  int
	sys   syscall.SysProcAttr
}

// startProcess starts the process. It returns its number and the channel that receives its
// wait status.
func (s *start) startProcess() (int, <-chan syscall.WaitStatus, error) {
	type result struct {
		pid   int
		ended chan syscall.WaitStatus
		err   error
	}
	done := make(chan result)
	go func() {
		// A thread that has entered a node's namespaces must not be reused. It stays locked
		// to this goroutine and so ends with it.
		if s.node != 0 {
			runtime.LockOSThread()
			if err := enterNode(s.node); err != nil {
				done <- result{err: fmt.Errorf("enter node %d: %w", s.node, err)}
				return
			}
		}
		reaper.Lock()
		defer reaper.Unlock()
		pid, err := s.forkExec()
		if err != nil {
			done <- result{err: err}
			return
		}
		ended := make(chan syscall.WaitStatus, 1)
		reaper.waits[pid] = ended
		done <- result{pid, ended, nil}
	}()
	r := <-done
	return r.pid, r.ended, r.err
}

func (s *start) forkExec() (int, error) {
	attr := syscall.ProcAttr{Dir: s.dir, Env: s.env, Sys: &s.sys}
	for _, f := range s.files {
		attr.Files = append(attr.Files, f.Fd())
	}
	return syscall.ForkExec(s.path, s.args, &attr)
}

// enterNode moves the calling thread into the node's network namespace and mounts a /sys
// that shows it, like `ip netns exec`.
func enterNode(n int) error {
	ns, err := os.Open(fmt.Sprintf("/run/netns/node%d", n))
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("sysfs", "/sys", "sysfs", plain, ""); err != nil {
		return err
	}
	return mountAll([]mount{
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", plain, ""},
		{"debugfs", "/sys/kernel/debug", "debugfs", plain, ""},
		{"tracefs", "/sys/kernel/tracing", "tracefs", plain, ""},
	})
}

// errNotFound is an fs.ErrNotExist.
var errNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string { return "not found" }

func (notFound) Is(target error) bool { return target == os.ErrNotExist }

const pathList = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath looks name up like a shell, with PATH from env and relative to dir.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	list := pathList
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			list = v
		}
	}
	for _, d := range filepath.SplitList(list) {
		path := filepath.Join(d, name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w in PATH (%s)", name, errNotFound, list)
}

// runTool runs one of this computer's administration programs and waits for its end.
func runTool(input, name string, args ...string) error {
	env := []string{"PATH=" + pathList}
	path, err := lookPath(name, "/", env)
	if err != nil {
		return fmt.Errorf("%w: run make setup on this computer", err)
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	said, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	s := start{path: path, args: append([]string{name}, args...), env: env, dir: "/", files: []*os.File{in, out, out}}
	_, ended, err := s.startProcess()
	in.Close()
	out.Close()
	if err != nil {
		feed.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		io.WriteString(feed, input)
		feed.Close()
	}()
	text, err := io.ReadAll(io.LimitReader(said, 4096))
	io.Copy(io.Discard, said) // a tool that writes more must not block
	status := <-ended
	if status.ExitStatus() != 0 {
		return fmt.Errorf("%s %s: %s: %s", name, strings.Join(args, " "), statusText(status), strings.TrimSpace(string(text)))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func statusText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "ended by " + s.Signal().String()
	}
	return fmt.Sprintf("status %d", s.ExitStatus())
}

// exitStatus returns the exit status as a shell reports it.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
