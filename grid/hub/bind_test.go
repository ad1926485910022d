// SPDX-License-Identifier: MIT

package hub

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
)

// programOf returns the worker program of a module with these functions.
func programOf(t *testing.T, module string, functions ...string) []byte {
	t.Helper()
	m := uapi.Manifest{Name: module}
	for _, name := range functions {
		m.Functions = append(m.Functions, uapi.Function{Name: name, Init: name == "Initialize"})
	}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return makeProgram(b, elf.PT_LOAD)
}

// bind binds a name and returns the module's name, or the error.
func (m *fakeMaster) bind(id uint64, name string) (string, *uapi.Error) {
	m.t.Helper()
	m.send(uapi.TypeBind, id, []byte(name))
	f := receiveFrom(m.t, "the answer to BIND", m.frames)
	if f.Type == uapi.TypeError {
		e, err := uapi.ParseError(f.Payload)
		if err != nil {
			m.t.Fatal(err)
		}
		return "", e
	}
	b, err := uapi.ParseBound(f.Payload)
	if err != nil {
		m.t.Fatal(err)
	}
	manifest, err := uapi.ParseManifest(b.Manifest)
	if err != nil {
		m.t.Fatal(err)
	}
	return manifest.Name, nil
}

// A function is found in all directories of the run. The program of its name comes first,
// and a program hides those of its name in later directories.
func TestBindByFunction(t *testing.T) {
	w := newWorld(t, nil)
	odd := filepath.Join(t.TempDir(), "a[b]*c?")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".rex"), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(w.dirs, "one", programOf(t, "one", "first", "both", "hidden", "Initialize"))
	write(w.dirs, "two", programOf(t, "two", "both"))
	write(w.dirs, "wins", programOf(t, "wins", "wins"))
	write(w.dirs, "aaa", programOf(t, "aaa", "wins"))
	write(w.dirs, "text", []byte("#!/bin/sh\n"))
	write(w.dirs, "shadow", programOf(t, "shadow", "nothing"))
	write(odd, "shadow", programOf(t, "later", "only"))
	write(odd, "one", programOf(t, "later", "first", "hidden"))
	write(odd, "last", programOf(t, "last", "far"))
	if err := os.Mkdir(filepath.Join(w.dirs, "dir.rex"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := w.startMasterOf(RunRequest{Name: "test", Dirs: []string{w.dirs, odd}})
	for i, c := range []struct{ name, module, want string }{
		{"?first", "one", ""}, {"?hidden", "one", ""}, {"?wins", "wins", ""}, {"?far", "last", ""}, {"?work", "mod", ""},
		{"?only", "", "has a function only: build it there"}, // its program is hidden
		{"?none", "", "no worker program in " + w.dirs + ", " + odd + " has a function none"},
		{"?Initialize", "", "has a function Initialize"},
		{"?both", "", "one.rex and " + filepath.Join(w.dirs, "two.rex") + " both have a function both: write MODULE.both"},
		{"?../x", "", `"../x" is not the name of a function`},
		{"?" + strings.Repeat("f", 64), "", "is not the name of a function"},
		{filepath.Join(odd, "last.rex"), "last", ""},
		{filepath.Join(odd, "none.rex"), "", "there is no worker program " + odd},
		{filepath.Join(w.dirs, "dir.rex"), "", "there is no worker program"},
	} {
		module, e := m.bind(uint64(i+1), c.name)
		if module != c.module || (e == nil) != (c.want == "") || e != nil && (!strings.Contains(e.Text, c.want) || e.Code != uapi.ENoModule) {
			t.Errorf("%s: %q, %v", c.name, module, e)
		}
	}
}

// The first directory of a run that has a module counts.
func TestBindTakesTheFirstDirectory(t *testing.T) {
	w := newWorld(t, nil)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mod.rex"), programOf(t, "other", "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	for module, dirs := range map[string][]string{"mod": {w.dirs, other}, "other": {other, w.dirs}} {
		m := w.startMasterOf(RunRequest{Name: "test", Dirs: dirs})
		if got, e := m.bind(1, "mod"); got != module {
			t.Errorf("of %v: %q, %v", dirs, got, e)
		}
	}
}

// A program binds as many modules as there are handles for, and no more.
func TestModulesAreBounded(t *testing.T) {
	m := newWorld(t, nil).startMaster()
	for i := range modulesMax {
		if _, e := m.bind(uint64(i+1), "mod"); e != nil {
			t.Fatalf("module %d: %v", i+1, e)
		}
	}
	if _, e := m.bind(1000, "mod"); e == nil || e.Code != uapi.ENoModule || !strings.Contains(e.Text, "bound 256 modules") {
		t.Errorf("one more: %v", e)
	}
}

// Calls of a module that is bound to a node run there alone, also if the node comes later.
func TestBindToANode(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	bound := make(chan *uapi.Error, 1)
	go func() { _, e := m.bind(1, "pc-2@mod"); bound <- e }()
	first := w.startAgent(1)
	second := w.startAgent(1) // whose name is pc-2
	if e := receiveFrom(t, "the handle", bound); e != nil {
		t.Fatal(e)
	}
	m.module = 1
	for call := uint64(5); call < 8; call++ {
		m.call(call, nil)
		second.sendDone(second.nextLease(), nil)
		m.readResult(call)
		second.askLeases(1)
	}
	if len(first.leases) != 0 {
		t.Error("another node got a call")
	}
}

// A node that does not come, and the end of the run, end the wait for it.
func TestBindToANodeThatIsMissing(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.hostIn = time.Millisecond })
	w.startAgent(1)
	_, e := w.startMaster().bind(1, "other@mod")
	if e == nil || e.Code != uapi.ENoNode || e.Text != `no node that is up has the name "other"; those that are up: pc` {
		t.Errorf("%v", e)
	}

	w = newWorld(t, func(c *Config) { c.hostIn = time.Hour })
	m := w.startMaster()
	ended := make(chan *uapi.Error, 1)
	r := w.onlyRun()
	go func() { _, e := (&master{hub: w.hub, run: r}).findHost("other"); ended <- e }()
	m.events.Close()
	if e := receiveFrom(t, "the end of the wait", ended); e.Code != uapi.ENoNode || e.Text != "the run ended" {
		t.Errorf("%v", e)
	}
}

func (w *world) onlyRun() *run {
	w.t.Helper()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, r := range w.hub.runs {
		return r
	}
	w.t.Fatal("no run")
	return nil
}

// Without room on the disk a module is not bound.
func TestModuleThatCannotBeStored(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	if err := os.RemoveAll(filepath.Join(w.hub.cfg.State, "blobs")); err != nil {
		t.Fatal(err)
	}
	if _, e := m.bind(1, "mod"); e == nil || e.Code != uapi.EInternal || !strings.Contains(e.Text, "module mod cannot be stored") {
		t.Errorf("%v", e)
	}
}
