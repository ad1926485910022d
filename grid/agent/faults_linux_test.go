// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
)

// The process fills all descriptors below this number, except as many as a try may use.
const descriptorsMax = 96

// Operations that need descriptors. Each returns an error, or succeeds and closes all.
var descriptorUsers = []struct {
	name string
	run  func(r *rig) error
}{
	{"call", func(r *rig) error {
		// The hub gets an error, and the worker is ended.
		call := r.start(fnEcho, []byte("on"))
		_, failed, ok := r.waitForEnd(call)
		for _, w := range r.pool.releaseSession("") {
			w.process.kill()
			<-w.process.done
		}
		if ok {
			return nil
		}
		return errors.New(failed.Text)
	}},
	{"program", func(r *rig) error {
		if end := r.execAndWait(proto.Exec{ID: "1", Program: r.module, Name: "worker"}, ""); end.failed != "" {
			return errors.New(end.failed)
		}
		return nil
	}},
	{"socket pair", func(r *rig) error {
		ours, theirs, err := socketPair("test", unix.SOCK_STREAM)
		if err == nil {
			err = errors.Join(ours.Close(), theirs.Close())
		}
		return err
	}},
}

func openDescriptors() (n int) {
	for fd := range descriptorsMax {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			n++
		}
	}
	return n
}

// leaveDescriptors fills all descriptors below the limit except n, and returns a function that
// closes them again.
func leaveDescriptors(n int) func() {
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	for range min(n, len(taken)) {
		unix.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
	}
}

func init() {
	roles["descriptors"] = func(args []string) {
		workerFile = args[0]
		testing.Init()
		// Without namespaces: where clone fails, Go leaves the pipe open by which it
		// gives their users.
		r := newRigOf(&victimT{}, Config{State: os.Getenv("VICTIM_DIR"), Slots: 1, confine: &bounds{Kind: ConfinedNot}})
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: descriptorsMax, Max: descriptorsMax})
		for _, user := range descriptorUsers {
			if err := user.run(r); err != nil { // what stays open from now on is open
				fmt.Println(user.name, "with all descriptors:", err)
			}
			tryDescriptors(r, user.name, user.run)
		}
		fmt.Println("tried")
		os.Exit(0)
	}
}

// tryDescriptors tries with 0, 1, 2 and more free descriptors until run succeeds. What an
// operation before it left to be closed may still be open when it begins, so only more
// descriptors than before are a leak.
func tryDescriptors(r *rig, name string, run func(r *rig) error) {
	before := openDescriptors()
	for n := 0; ; n++ {
		undo := leaveDescriptors(n)
		err := run(r)
		undo()
		waitUntil(&victimT{}, fmt.Sprintf("%s with %d (%v): at most %d descriptors", name, n, err, before), func() bool {
			now := openDescriptors()
			fewer := now <= before
			before = min(before, now)
			return fewer
		})
		switch {
		case err == nil:
			fmt.Printf("%s needs %d\n", name, n)
			return
		case !strings.Contains(err.Error(), "too many open files"):
			fmt.Printf("%s with %d: %v\n", name, n, err)
			return
		}
	}
}

// Every operation that fails for lack of descriptors returns an error that says so, and leaves
// nothing open.
func TestWithoutDescriptors(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "descriptors", workerFile)
	cmd.Env = append(os.Environ(), "VICTIM_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || strings.Count(text, " needs ") != len(descriptorUsers) || !strings.HasSuffix(text, "tried\n") {
		t.Errorf("%v: %s", err, text)
	}
}

// A failed removal is an error, also if the path is no folder.
func TestNoFolderIsRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(file + "/below"); err == nil {
		t.Error("what is below a file was removed")
	}
}
