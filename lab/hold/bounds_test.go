// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/lab/wire"
)

func plant(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A name becomes a folder's beside others that begin with a dot.
func TestNamesThatNoMachineHas(t *testing.T) {
	build := t.TempDir()
	for _, name := range []string{"", ".", "..", ".hold", "a/b", "/a", "a/"} {
		h := &holder{order: order{build, lab.Machine{Name: name}}}
		if err := h.open(); err == nil || !strings.Contains(err.Error(), "can't be the name of a machine") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if list, err := os.ReadDir(build); len(list) != 0 || err != nil {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestLastLineOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{"": "", "\n\n": "", "one": "one", "one\ntwo\n\n": "two", "one\n" + strings.Repeat("x", 300): strings.Repeat("x", 300),
		strings.Repeat("x", 301): strings.Repeat("x", 300)} {
		plant(t, path, text)
		if got := lastLine(path); got != want {
			t.Errorf("%.20q: %q", text, got)
		}
	}
	if got := lastLine(path + "x"); got != "" {
		t.Errorf("no file: %q", got)
	}
}

// What is known of a dead machine depends on what its holder still wrote.
func TestRecordOfADeadMachine(t *testing.T) {
	build := t.TempDir()
	dir := machineDir(build, "vm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(what, cause string) {
		t.Helper()
		if i := describeDead(build, "vm"); i.State != Dead || !strings.Contains(i.Cause, cause) || i.Name != "vm" || i.Dir != recordsDir(build, "vm") {
			t.Errorf("%s: %+v, want %q", what, i, cause)
		}
	}
	check("nothing", "its holder was killed")
	plant(t, filepath.Join(dir, logName), "first\nit broke\n")
	check("a log", "its holder ended: it broke")
	info := Info{Name: "vm", Dir: recordsDir(build, "vm"), State: Up, CPUs: 3}
	if err := writeInfo(dir, info); err != nil {
		t.Fatal(err)
	}
	check("a machine that was up", "its holder ended: it broke")
	info.State, info.Cause = Dead, "a panic"
	if err := writeInfo(dir, info); err != nil {
		t.Fatal(err)
	}
	check("a machine that died", "a panic")
	plant(t, filepath.Join(dir, infoName), "{")
	check("a damaged record", "the record of its end can't be read")
	i := describeDead(build, "vm")
	if text := i.Death(); strings.Contains(text, "console") {
		t.Errorf("%q", text)
	}
	plant(t, i.Console(), "")
	if text, want := i.Death(), "the machine vm died: "+i.Cause+"; its console is "+filepath.Join(i.Dir, "console.log"); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := removeDead(build, "vm"); got.State != Dead || exists(dir) {
		t.Errorf("%+v", got)
	}
	if _, err := readInfo(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no record: %v", err)
	}
	if err := writeInfo(dir, info); err == nil {
		t.Error("a record without a folder is no error")
	}
}

// A name is free if no machine has it and nobody's files are under it.
func TestFreeNames(t *testing.T) {
	build := t.TempDir()
	check := func(what, want string) {
		t.Helper()
		if got := FreeName(build, "vm"); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("nothing is there", "vm")
	lock, err := claimDir(build, "vm")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	check("a machine", "vm2")
	plant(t, filepath.Join(recordsDir(build, "vm2"), "out", "mine"), "")
	check("a machine and files", "vm3")
	plant(t, filepath.Join(recordsDir(build, "vm3"), "console.log"), "")
	check("a console is nobody's", "vm3")
	if _, err := claimDir(build, "vm"); err == nil || !strings.Contains(err.Error(), "a machine named vm exists already") {
		t.Errorf("%v", err)
	}
	if got := JoinNames([]*Machine{{Info: Info{Name: "a"}}, {Info: Info{Name: "b"}}}); got != "a, b" {
		t.Errorf("%q", got)
	}
}

// The records of a machine go but for what its user brought out.
func TestRecordsThatGo(t *testing.T) {
	dir := t.TempDir()
	for name, left := range map[string][]string{"none": nil, "mine": {"out", "out/mine"}, ".virtfs_metadata": nil, ".virtfs_metadata_root": nil} {
		at := filepath.Join(dir, name)
		plant(t, filepath.Join(at, "console.log"), "")
		plant(t, filepath.Join(at, "deep/file"), "")
		if name != "none" {
			plant(t, filepath.Join(at, "out", name), "")
		} else if err := os.Mkdir(filepath.Join(at, "out"), 0o755); err != nil {
			t.Fatal(err)
		}
		removeRecords(at)
		if exists(at) != (left != nil) {
			t.Errorf("%s: the folder is there: %v", name, exists(at))
		}
		for _, l := range left {
			if !exists(filepath.Join(at, l)) {
				t.Errorf("%s: %s is gone", name, l)
			}
		}
		if exists(filepath.Join(at, "console.log")) || exists(filepath.Join(at, "deep")) {
			t.Errorf("%s: records stay", name)
		}
	}
}

func TestMemoryThatIsFree(t *testing.T) {
	n, err := FreeMemory()
	text, failed := os.ReadFile("/proc/meminfo")
	if err != nil || failed != nil || n < 1 || n > 1<<24 || !strings.Contains(string(text), "MemAvailable:") {
		t.Errorf("%d MiB, %v, %v", n, err, failed)
	}
}

// A module whose path a shell would read otherwise, or that is none, is refused by name.
func TestModulesThatModprobeCannotBeTold(t *testing.T) {
	for file, why := range map[string]string{"a b/x.ko": "a path that a configuration of modprobe can't contain", "ok/x$.ko": "a path that", "ok/x.ko": "is not a kernel module"} {
		build := t.TempDir()
		plant(t, filepath.Join(build, "kmod", "6.1", file), "no module")
		if text, err := modprobeConfig(build, "6.1"); text != "" || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	if text, err := modprobeConfig(t.TempDir(), "6.1"); text != "" || err != nil {
		t.Errorf("none: %q, %v", text, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := moduleDeps(self); err == nil || !strings.Contains(err.Error(), "it has no .modinfo") {
		t.Errorf("a program: %v", err)
	}
	if _, err := moduleDeps(filepath.Join(t.TempDir(), "none.ko")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Of a folder without a holder nobody says that it lives; a lock says it.
func TestLockSaysWhoLives(t *testing.T) {
	build := t.TempDir()
	if isAlive(machineDir(build, "vm")) {
		t.Error("no folder lives")
	}
	lock, err := claimDir(build, "vm")
	if err != nil {
		t.Fatal(err)
	}
	if dir := machineDir(build, "vm"); !isAlive(dir) || !isAlive(dir) {
		t.Error("a locked one is dead")
	}
	lock.Close()
	if isAlive(machineDir(build, "vm")) {
		t.Error("an unlocked one lives")
	}
	m := &Machine{Info: Info{Name: "vm"}, build: build}
	if err := m.Down(t.Context()); err != nil || exists(machineDir(build, "vm")) {
		t.Errorf("the folder of a dead one stays: %v", err)
	}
	var gone *Gone
	begin := time.Now()
	if _, err := m.Exec(t.Context(), lab.Program{Args: []string{"x"}}, lab.Streams{}); !errors.As(err, &gone) || gone.Text != "the machine vm was turned off" {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	running, dead, err := List(build)
	if len(running) != 0 || len(dead) != 0 || err != nil {
		t.Errorf("%v, %v, %v", running, dead, err)
	}
	if running, dead, err := List(filepath.Join(build, "none")); running != nil || dead != nil || err != nil {
		t.Errorf("no build folder: %v, %v, %v", running, dead, err)
	}
}

// A holder that answers a question for its machine with an error has no info.
func TestHolderWithoutInfo(t *testing.T) {
	dir := t.TempDir()
	if _, err := askInfo(dir); err == nil {
		t.Error("no holder has an info")
	}
	l, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := []answer{{Error: "it ends"}, {Info: &Info{Release: "6.1"}}}
	go func() {
		for _, a := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var asked ask
			if wire.Read(c, &asked) == nil && asked.Op == opInfo {
				wire.Write(c, a)
			}
			c.Close()
		}
	}()
	if info, err := askInfo(dir); info != nil || err == nil || err.Error() != "no info: it ends" {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := askInfo(dir); err != nil || info.Release != "6.1" {
		t.Errorf("%v, %v", info, err)
	}
}
