// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"skep/internal/load"
)

// sealDescriptors keeps descriptors that this process inherited, beside the standard streams,
// from the suites: what whoever started make has open must not decide what a suite sees.
func sealDescriptors() {
	list, _ := os.ReadDir("/proc/self/fd") // the suites run without it, too
	for _, e := range list {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 2 {
			syscall.CloseOnExec(n)
		}
	}
}

// becomeReaper makes this process the subreaper of its descendants, so that it becomes the
// parent of processes that suites leave, also of those in another session.
func becomeReaper() {
	const prSetChildSubreaper = 36 // prctl(2)
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// politeness is how long a process that was left may take to end after SIGTERM. wineserver
// writes its registry in this time.
const politeness = 2 * time.Second

// spared has the processes of the parallel lanes. They end their own leftovers.
var spared sync.Map

// grace is how long a process may outlive its suite, if it is about to end.
const grace = 2 * time.Second

// awaitEnd returns when no descendant of this process is left, at the latest after the grace.
func awaitEnd() {
	timer := load.NewTimer(grace, scale)
	defer timer.Stop()
	for reapEnded(); len(listDescendants(os.Getpid())) > 0 && !isClosed(timer.C); reapEnded() {
		time.Sleep(10 * time.Millisecond)
	}
}

// endLeftovers ends every descendant of this process, first by SIGTERM, and returns their
// names. It is called when no suite of this process runs.
func endLeftovers() (left []string) {
	reapEnded()
	seen := map[int]bool{}
	kind, end := load.NewTimer(politeness, scale), load.NewTimer(5*politeness, scale)
	defer kind.Stop()
	defer end.Stop()
	for {
		list := listDescendants(os.Getpid())
		if len(list) == 0 {
			return left
		}
		if isClosed(end.C) {
			return append(left, fmt.Sprintf("%d of them do not end: %v", len(list), list))
		}
		for _, pid := range list {
			// Only children can be waited for. Other descendants are
			// reaped by their parents, or become children next.
			var ws syscall.WaitStatus
			if ended, _ := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil); ended == pid {
				continue
			}
			if !seen[pid] {
				seen[pid] = true
				left = append(left, "process "+describeProcess(pid))
				syscall.Kill(pid, syscall.SIGTERM)
			}
			if isClosed(kind.C) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// nameMax is the largest length of a process's description.
const nameMax = 120

// describeProcess returns a process's number and its command line, or its name if it is a
// zombie.
func describeProcess(pid int) string {
	dir := fmt.Sprintf("/proc/%d/", pid)
	text, _ := os.ReadFile(dir + "cmdline")
	words := strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
	if words == "" {
		name, _ := os.ReadFile(dir + "comm")
		words = "(" + strings.TrimSpace(string(name)) + ")"
	}
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, words[:min(len(words), nameMax)])
	return fmt.Sprintf("%d %s", pid, clean)
}

// reapEnded reaps adopted processes that ended by themselves. They do not count as left
// behind.
func reapEnded() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// reapPeriod is how often adopted processes are reaped while a suite runs. A suite of many
// programs that leave their helpers would otherwise fill the table of processes with zombies.
const reapPeriod = time.Second

// reapOrphans reaps the adopted processes that ended until done is closed. The suite's own
// process is not adopted: another goroutine waits for it.
func reapOrphans(own int, done <-chan struct{}) {
	ticker := time.NewTicker(reapPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		for pid := endedChild(); pid > 0 && pid != own && !isSpared(pid); pid = endedChild() {
			var ws syscall.WaitStatus
			syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
		}
	}
}

// endedChild returns a child that ended and that nobody has waited for yet, or 0. It leaves the
// child as it is: see waitid(2).
func endedChild() int {
	const all, nohang, exited, nowait = 0, 1, 4, 1 << 24
	var info [32]int32 // siginfo_t: first the signal, and the process after four numbers
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&info)), nohang|exited|nowait, 0, 0)
	if errno != 0 || info[0] == 0 {
		return 0
	}
	return int(info[4])
}

func isSpared(pid int) bool {
	_, ok := spared.Load(pid)
	return ok
}

// listDescendants lists the live or unreaped processes below pid, without those that are
// spared and those below them.
func listDescendants(pid int) (all []int) {
	children := listChildren()
	queue := []int{pid}
	for len(queue) > 0 {
		next := children[queue[0]]
		queue = append(queue[1:], next...)
		all = append(all, next...)
	}
	return all
}

// listChildren lists the children of each process by /proc, without those that are spared.
func listChildren() map[int][]int {
	children := map[int][]int{}
	// A pattern such as /proc/[0-9]*/stat would have each process's folder listed.
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		if child, parent := parseStat(text); !isSpared(child) {
			children[parent] = append(children[parent], child)
		}
	}
	return children
}

// parseStat parses the process number and the parent from /proc/PID/stat. The command between
// parentheses may contain any characters.
func parseStat(text []byte) (pid, parent int) {
	first := bytes.IndexByte(text, ' ')
	last := bytes.LastIndexByte(text, ')')
	if first < 0 || last < 0 {
		return -1, -1
	}
	pid, _ = strconv.Atoi(string(text[:first]))
	fields := bytes.Fields(text[last+1:])
	if len(fields) < 2 {
		return -1, -1
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	return pid, parent
}
