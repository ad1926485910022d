// SPDX-License-Identifier: MIT

package gang

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/cgroup"
)

// A RefusedError says why a control group cannot be a gang, and what to do.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

func refusef(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// A group is the control group of one gang.
type group struct {
	dir   string
	ours  bool     // it was made for a program, and is removed with it
	lock  *os.File // keeps another skep from switching it; also names it to clone3(2)
	begun bool     // a process may be in it
	low   string   // its memory.low before skep changed it; empty: skep does not
}

// findGroup returns the control group that a user named: a folder, or a path below the
// hierarchy's root. own is the group of this process.
func findGroup(root, own, word string) (*group, error) {
	dir := filepath.Clean(word)
	var s unix.Statfs_t
	if !filepath.IsAbs(dir) || unix.Statfs(dir, &s) != nil || s.Type != unix.CGROUP2_SUPER_MAGIC {
		dir = filepath.Join(root, word)
	}
	kind, err := cgroup.Value(dir, "cgroup.type", "")
	switch {
	case dir == root:
		return nil, refusef("%s is the root of all control groups, which cannot stop", dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil, refusef("there is no control group %s", dir)
	case err != nil:
		return nil, err
	case kind == "threaded":
		return nil, refusef("the control group %s has threads of processes that are elsewhere: name the one above it", dir)
	case isWithin(filepath.Join(root, own), dir):
		return nil, refusef("skep itself is in the control group %s, and would stop with it: start skep elsewhere", dir)
	}
	return &group{dir: dir, begun: true}, nil
}

// open locks a group that is there for this process, or refuses it.
func (g *group) open() error {
	if err := g.lockFolder(); err != nil {
		return err
	}
	return g.checkState()
}

// checkState refuses a group that has no processes, or that somebody else stops.
func (g *group) checkState() error {
	if frozen, err := cgroup.Value(g.dir, "cgroup.events", "frozen"); err != nil || frozen == "1" {
		return errors.Join(err, refusedIf(err == nil, "the control group %s is frozen already: whoever froze it, or 'echo 0 >%s/cgroup.freeze', lets it go on", g.dir, g.dir))
	}
	_, ended, err := g.read()
	return errors.Join(err, refusedIf(ended, "no process is in the control group %s", g.dir))
}

func refusedIf(is bool, format string, args ...any) error {
	if !is {
		return nil
	}
	return refusef(format, args...)
}

func (g *group) lockFolder() (err error) {
	if g.lock, err = os.Open(g.dir); err != nil {
		return err
	}
	err = unix.Flock(int(g.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = refusef("another skep switches the control group %s", g.dir)
	}
	if err == nil {
		err = unix.Access(filepath.Join(g.dir, "cgroup.freeze"), unix.W_OK)
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) {
		err = refusef("the control group %s is not yours to stop: root may, and its owner", g.dir)
	}
	return err
}

// isWithin reports whether a folder is another one or below it.
func isWithin(dir, other string) bool { return dir == other || strings.HasPrefix(dir, other+"/") }

// checkApart refuses groups that are one another, or one within another.
func checkApart(groups []*group) error {
	for i, g := range groups {
		for _, other := range groups[:i] {
			if isWithin(g.dir, other.dir) || isWithin(other.dir, g.dir) {
				return refusef("the control groups %s and %s are not apart: no process may be in two gangs", other.dir, g.dir)
			}
		}
	}
	return nil
}

// create makes the group of a program, in which nothing runs until its first turn.
func (g *group) create() error {
	err := os.Mkdir(g.dir, 0o755)
	if errors.Is(err, fs.ErrPermission) {
		return refusef("no control group can be made in %s: start skep as root, or with systemd-run --user --scope -p Delegate=yes", filepath.Dir(g.dir))
	}
	if err != nil {
		return err
	}
	return g.lockFolder()
}

func (g *group) freeze() error { return g.ignoreGone(cgroup.Write(g.dir, "cgroup.freeze", "1")) }
func (g *group) thaw() error   { return g.ignoreGone(cgroup.Write(g.dir, "cgroup.freeze", "0")) }
func (g *group) kill() error   { return g.ignoreGone(cgroup.Write(g.dir, "cgroup.kill", "1")) }

// ignoreGone makes it no error that the group has been removed: it has ended.
func (g *group) ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// read returns whether all processes are frozen, and whether there are none any more.
func (g *group) read() (frozen, ended bool, err error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	if g.ignoreGone(err) != nil {
		return false, false, err
	}
	lines := strings.Split(string(text), "\n")
	return slices.Contains(lines, "frozen 1"), g.begun && !slices.Contains(lines, "populated 1"), nil
}

// eachProcess visits each process of the group and of those below it.
func (g *group) eachProcess(visit func(pid int)) {
	eachGroup(g.dir, func(dir string) {
		text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // gone: it has no process
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				visit(pid)
			}
		}
	})
}

// eachGroup visits a group and those below it, the lowest first.
func eachGroup(dir string, visit func(dir string)) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if e.IsDir() {
			eachGroup(filepath.Join(dir, e.Name()), visit)
		}
	}
	visit(dir)
}

const (
	removeIn   = 10 * time.Second // the kernel ends the processes of a group
	removePoll = 2 * time.Millisecond
)

// remove ends all processes of the group, whether it is frozen or not, and removes it.
func (g *group) remove() error {
	if err := g.kill(); err != nil {
		return err
	}
	for end := time.Now().Add(removeIn); ; time.Sleep(removePoll) {
		eachGroup(g.dir, func(dir string) { unix.Rmdir(dir) })
		if _, err := os.Stat(g.dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the processes of the control group %s do not end: 'cat %s/cgroup.procs' lists them", g.dir, g.dir)
		}
	}
}

// release leaves nothing behind: a program's group is removed, another one goes on.
func (g *group) release() error {
	if g.ours {
		return g.remove()
	}
	err := g.thaw()
	if g.low != "" {
		err = errors.Join(err, g.ignoreGone(cgroup.Write(g.dir, "memory.low", g.low)))
	}
	return err
}
