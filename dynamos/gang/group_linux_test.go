// SPDX-License-Identifier: MIT

package gang

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makeGroup makes a folder with the files that the kernel would make.
func makeGroup(t *testing.T, dir, kind, events string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cgroup.type": kind, "cgroup.events": events, "cgroup.freeze": "0\n", "cgroup.procs": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readFreeze(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.freeze"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	domain  = "domain\n"
	runs    = "populated 1\nfrozen 0\n"
	empty   = "populated 0\nfrozen 0\n"
	stopped = "populated 1\nfrozen 1\n"
)

func TestGroupsThatAreRefused(t *testing.T) {
	root := t.TempDir()
	for name, g := range map[string]struct{ kind, events string }{
		"a": {domain, runs}, "a/low": {domain, runs}, "ab": {domain, runs}, "own/skep": {domain, runs}, "own": {domain, runs},
		"empty": {domain, empty}, "stopped": {domain, stopped}, "threads": {"threaded\n", runs},
	} {
		makeGroup(t, filepath.Join(root, name), g.kind, g.events)
	}
	for _, c := range []struct{ words, want string }{
		{"a ab", ""},
		{"/a ab/../ab", ""},
		{"a none", "there is no control group"},
		{"a /", "root of all control groups"},
		{"a threads", "threads of processes"},
		{"a own", "skep itself"},
		{"a own/skep", "skep itself"},
		{"a empty", "no process is in"},
		{"a stopped", "is frozen already"},
		{"a a", "not apart"},
		{"a/low ab a", "not apart"},
		{"a a/low", "not apart"},
	} {
		groups, err := openAll(root, strings.Fields(c.words))
		var refused *RefusedError
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.words, err, c.want)
		}
		if c.want == "" {
			if _, err := openAll(root, []string{"ab"}); err == nil || !strings.Contains(err.Error(), "another skep switches") {
				t.Errorf("a group that is switched: %v", err)
			}
		}
		(&runner{groups: groups}).closeLocks()
	}
}

func openAll(root string, words []string) ([]*group, error) {
	r := &runner{job: &Job{Groups: words}}
	err := r.openThere(root, "/own/skep")
	return r.groups, err
}

// The guard lets go on what skep has stopped, when skep is gone and not before.
func TestGuardThaws(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	makeGroup(t, a, domain, stopped)
	makeGroup(t, b, domain, runs)
	if err := os.WriteFile(filepath.Join(a, "cgroup.freeze"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b, "memory.low"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	in, skep := io.Pipe()
	out, answer := io.Pipe()
	ended := make(chan error)
	go func() {
		ended <- RunGuard([]string{guardThaws, a, "", guardThaws, b, "4096", guardThaws, filepath.Join(root, "gone"), "0"}, in, answer)
	}()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := skep.Write([]byte{0}); err != nil { // the guard reads it when it waits
		t.Fatal(err)
	}
	if got := readFreeze(t, a); got != "1" {
		t.Errorf("while skep lives: %q", got)
	}
	skep.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := readFreeze(t, a) + readFreeze(t, b); got != "00\n" {
		t.Errorf("after the end of skep: %q", got)
	}
	if low, err := os.ReadFile(filepath.Join(b, "memory.low")); err != nil || string(low) != "4096" {
		t.Errorf("the protection of a group: %q, %v", low, err)
	}
	for _, words := range [][]string{nil, {guardThaws}, {guardThaws, a}, {guardThaws, a, "", "x"}} {
		if err := RunGuard(words, strings.NewReader(""), new(bytes.Buffer)); err == nil {
			t.Errorf("%q is taken", words)
		}
	}
}
