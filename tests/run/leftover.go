// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// sharedMemory is where shm_open(3) keeps its segments.
const sharedMemory = "/dev/shm"

// systemV has the lists of System V objects, each with their names.
var systemV = map[string]string{
	"/proc/sysvipc/shm": "shared memory segment",
	"/proc/sysvipc/sem": "semaphore set",
	"/proc/sysvipc/msg": "message queue",
}

// A leftover is a thing other than a process that outlives the suite that made it.
type leftover struct {
	kind, name string
}

func (l leftover) String() string { return l.kind + " " + l.name }

// A scene is where a suite runs: its folder for temporary files and, if the runner has
// namespaces of its own, the mounts, named network namespaces and shared memory there.
type scene struct {
	dir    string // TMPDIR of the suite
	before []leftover
}

func newScene() (*scene, error) {
	dir, err := os.MkdirTemp("", "skep")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // as /tmp: suites use other users too
		return nil, err
	}
	s := &scene{dir: dir}
	s.before = s.list()
	return s, nil
}

// clear removes the suite's folder and whatever the suite left in it and in the namespaces,
// and returns a name for each such thing, and for each failure to remove it. It is called when
// no process of the suite lives.
func (s *scene) clear() (left []string) {
	found := s.list()
	found = slices.DeleteFunc(found, func(l leftover) bool { return slices.Contains(s.before, l) })
	slices.Reverse(found) // mounts that hide others go first
	var errs []error
	for _, l := range found {
		left = append(left, l.String())
		errs = append(errs, l.remove())
	}
	// A mount that stays may show files of others.
	if err := errors.Join(errs...); err != nil {
		return append(left, fmt.Sprintf("which cannot be removed, so %s stays: %v", s.dir, err))
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return append(left, err.Error())
	}
	return left
}

// list lists files in the suite's folder, and mounts in their order. The list of mounts has
// the folder's own mounts in any namespace.
func (s *scene) list() (all []leftover) {
	all = append(all, listFiles(s.dir, "temporary file")...)
	if apart {
		all = append(all, listFiles(sharedMemory, "shared memory")...)
		for path, kind := range systemV {
			all = append(all, listSystemV(path, kind)...)
		}
	}
	for _, at := range listMounts() {
		if apart || strings.HasPrefix(at, s.dir+"/") {
			all = append(all, leftover{"mount", at})
		}
	}
	return all
}

// remove leaves temporary files to the removal of their folder.
func (l leftover) remove() error {
	switch l.kind {
	case "mount":
		return os.NewSyscallError("umount "+l.name, syscall.Unmount(l.name, syscall.MNT_DETACH))
	case "shared memory":
		return os.RemoveAll(l.name)
	}
	return nil
}

func listFiles(dir, kind string) (all []leftover) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if path := filepath.Join(dir, e.Name()); !isKept(path) {
			all = append(all, leftover{kind, path})
		}
	}
	return all
}

// kept are the folders that programs keep for the next run, with the files that each of them
// keeps there. Any other file shows that a program did not end as it should.
var kept = map[string]string{
	"wine-??????": "server-*/lock", // its servers' sockets
	"skep-o2g-*":  "[0-9]*-*",      // pages of killed endpoints, which the next one removes
}

func isKept(path string) bool {
	for folder, file := range kept {
		if ok, _ := filepath.Match(folder, filepath.Base(path)); ok {
			return hasOnly(path, file)
		}
	}
	return false
}

// hasOnly is true for a folder without files, or with files of that pattern alone.
func hasOnly(dir, pattern string) bool {
	entry, err := os.Lstat(dir)
	if err != nil || !entry.IsDir() {
		return false
	}
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rest, _ := filepath.Rel(dir, path)
		if ok, _ := filepath.Match(pattern, rest); !ok {
			return errors.New("another file")
		}
		return nil
	})
	return err == nil
}

// listSystemV reads a list of /proc/sysvipc, whose lines begin with a key and an identifier.
// The objects go with the runner's namespace.
func listSystemV(path, kind string) (all []leftover) {
	text, _ := os.ReadFile(path)
	for i, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 1 {
			all = append(all, leftover{kind, f[1] + " with key " + f[0]})
		}
	}
	return all
}

// listMounts returns where file systems are mounted, in the order of proc_pid_mountinfo(5).
// A named network namespace is a mount below /run/netns.
func listMounts() (all []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 4 {
			all = append(all, plain.Replace(f[4]))
		}
	}
	return all
}

// judgeLeft fails a suite that left anything behind, and adds it to the log. The failure is
// wide: a second run that leaves nothing shows no test of that name.
func (s suite) judgeLeft(log string, left []string) []result {
	if len(left) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%d left behind: %s", len(left), left[0])
	if file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0o644); err == nil { // else the suite did not run
		for _, name := range left {
			fmt.Fprintf(file, "left behind: %s\n", name)
		}
		if err := file.Close(); err != nil {
			reason += "; " + err.Error()
		}
	}
	return []result{{suite: s.name, name: "leaves nothing behind", status: failed, wide: true, reason: reason, detail: left}}
}
