// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// roomMk is the fragment of a room with one of everything.
const roomMk = `# SPDX-License-Identifier: MIT
PROGRAMS += $(B)/bin/prog
CHECK_SUITES += quick
TEST_SUITES += slow on-wine
BENCHES += speed
FUZZERS += parser
SOAKS += room
FULL_SUITES += long
KMODS += planted
kmod_planted = room
suite_long = printf '1..1\nok 1 - before a release\n'
suite_quick = cat $(B)/quick.tap
suite_quick_needs = $(B)/quick.tap
suite_slow = printf '1..1\nok 1 - it'"'"'s slow\n'
suite_on-wine = echo 'ok 1 - under wine'; echo 1..1
bench_speed = cat $(B)/speed
bench_speed_needs = $(B)/speed
fuzz_parser = echo fuzzed
soak_room = echo soaked
demo_run = cat $(demo_needs)
demo_needs = $(B)/demo
windows_kit = $(B)/kit.zip
$(B)/quick.tap:
	printf 'ok 1 - quick one\n1..1\n' >$@
$(B)/bin/prog: $(B)/obj/gcc/room/prog.o
	mkdir -p $(@D)
	$(CC) -o $@ $^
$(B)/speed $(B)/demo $(B)/kit.zip:
	echo made-$(@F) >$@
`

// copyFrame copies the tree's makefiles to a new directory, with the given fragment.
func copyFrame(t *testing.T, fragment string) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{"Makefile", "go.mod", "mk", "internal/load", "tests/tap", "tests/run", ".ci"} {
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("cp", "-r", filepath.Join("../..", path), to).CombinedOutput()
		if err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	files := map[string]string{
		"room/room.mk": fragment,
		"room/prog.c":  "#include \"prog.h\"\nint main(void)\n{\n\treturn VALUE;\n}\n",
		"room/prog.h":  "#define VALUE 0\n",
		"tests/floor":  "check 1\ntest 3\n",
		"SPEC.md":      "**a-1** x Held by: `quick: quick one`.\n\n**a-2** x Held by: `slow: it's slow`.\n",
	}
	if fragment == "" {
		delete(files, "room/room.mk")
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// makeIn runs make without the variables of an outer make.
func makeIn(dir string, args ...string) (string, error) {
	cmd := exec.Command("make", args...)
	cmd.Dir = dir
	cmd.Env = cleanEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// cleanEnv returns the environment without variables of an outer make, and with a T that make
// must ignore.
func cleanEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "T=from-the-shell"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GO") {
			env = append(env, e)
		}
	}
	return env
}

func TestMake(t *testing.T) {
	dir := copyFrame(t, roomMk)
	tests := []struct {
		name string
		args []string
		ok   bool
		want string
	}{
		{"check runs quick suites", []string{"check"}, true, "SPEC: 1 of 1 promises held\n1 passed, 0 failed, 0 skipped\n"},
		{"test runs all", []string{"test-run"}, true, "SPEC: 2 of 2 promises held\n4 passed, 0 failed, 0 skipped\n"},
		{"one suite", []string{"test-run", "T=slow"}, true, "ok   slow"},
		{"suites by a pattern", []string{"test-run", "T=s* qu*"}, true, "ok   quick"},
		{"no suite of that pattern", []string{"check", "T=gone*"}, false, "no suite 'gone*'; there are:"},
		{"no such suite", []string{"check", "T=gone"}, false, "no suite 'gone'; there are: fuzz-parser on-wine quick slow"},
		{"no such VM suite", []string{"vm", "T=gone"}, false, "no VM suite 'gone'; there are:"},
		{"no such bench", []string{"bench", "T=gone"}, false, "no bench 'gone'; there are: speed"},
		{"no such fuzzer", []string{"fuzz", "T=gone"}, false, "no fuzzer 'gone'; there are: parser"},
		{"one fuzzer", []string{"fuzz", "T=parser"}, true, "fuzzed"},
		{"wine", []string{"wine"}, true, "ok   on-wine"},
		{"one suite under Wine", []string{"wine", "T=on-*"}, true, "ok   on-wine"},
		{"not under Wine", []string{"wine", "T=quick"}, false, "no suite under Wine 'quick'; there are: on-wine"},
		{"a T that nothing takes", []string{"style", "T=quick"}, false, "make style takes no T=; one suite: make test T='quick'"},
		{"a T for make itself", []string{"T=quick"}, false, "make all takes no T="},
		{"bench", []string{"bench"}, true, "made-speed"},
		{"bench by name", []string{"bench", "T=speed"}, true, "made-speed"},
		{"fuzz", []string{"fuzz", "FUZZ_TIME=7"}, true, "fuzzed -max_total_time=7"},
		{"fuzz for ever", []string{"fuzz", "FUZZ_TIME=long"}, false, "FUZZ_TIME is a number of seconds from 1, not 'long'"},
		{"before a release", []string{"test-full-run"}, true, "ok   long"},
		{"one before a release", []string{"test-full-run", "T=l*"}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"a quick suite is not one of them", []string{"test-full", "T=quick"}, false, "no suite of make test-full 'quick'; there are: long"},
		{"soak", []string{"soak", "ROOM=room"}, true, "soaked"},
		{"soak of nothing", []string{"soak", "ROOM=gone"}, false, "name one of: ROOM=room"},
		{"demo", []string{"demo-run"}, true, "made-demo"},
		{"kit", []string{"windows-kit"}, true, "build/kit.zip"},
		{"help", []string{"help"}, true, "make demo"},
		{"the commands are shown", []string{"check", "V=1"}, true, " build -o build/tool/run "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := makeIn(dir, tt.args...)
			if tt.ok != (err == nil) || !strings.Contains(out, tt.want) {
				t.Errorf("make %v: %v; want %q in\n%s", tt.args, err, tt.want, out)
			}
		})
	}
}

// What pages tell people to type first, with a list of packages that is installed everywhere.
func TestMake_setup(t *testing.T) {
	dir := copyFrame(t, roomMk+"VM_SUITES += vm-guest\nsuite_vm-guest = printf '1..1\\nok 1 - in a machine\\n'\n")
	if err := os.WriteFile(filepath.Join(dir, "mk/packages.list"), []byte("[demo]\ndpkg x\n[test]\n[full]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := makeIn(dir, "-j2"); err != nil {
		t.Fatalf("make -j2: %v\n%s", err, out)
	}
	if err := exec.Command(filepath.Join(dir, "build/bin/prog")).Run(); err != nil {
		t.Errorf("make -j2 built no program: %v", err)
	}
	for line, want := range map[string]string{"test": "\n5 passed, 0 failed, 0 skipped\n", "vm T=guest": "ok   vm-guest"} {
		out, err := makeIn(dir, strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("make %s: %v; want %q in\n%s", line, err, want, out)
		}
	}
}

// CONTRIBUTING's first line, with this tree as the URL.
func TestClone(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("this tree is no clone")
	}
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(page), "\n    git clone URL ")
	if !found {
		t.Fatal("CONTRIBUTING begins with no git clone")
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ = strings.Cut(line, "\n")
	cmd := exec.Command("sh", "-c", "git clone -q '"+top+"' "+line+" && make help")
	cmd.Dir, cmd.Env = t.TempDir(), append(cleanEnv(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "make demo") {
		t.Errorf("%v\n%s", err, out)
	}
}

// make -n writes nothing.
func TestMake_dry(t *testing.T) {
	dir := copyFrame(t, roomMk)
	module := filepath.Join(dir, "mk/kmod.sh") // builds modules with our job slots, so under -n too
	if err := os.WriteFile(module, []byte("mkdir -p build\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"all", "test", "test-full", "check", "demo", "vm", "bench", "fuzz", "style",
		"test-run T=quick", "kmod", "vm-debug", "compile_commands.json", "wine"} {
		makeIn(dir, append([]string{"-n"}, strings.Fields(target)...)...)
		for _, name := range []string{"build", "compile_commands.json.new"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Fatalf("make -n %s wrote %s", target, name)
			}
		}
	}
}

// Make executes a line of a recipe that names $(MAKE) under -n too, so such a line does
// nothing but start make. What another program is to start is $(MAKE_COMMAND).
func TestMake_dryRooms(t *testing.T) {
	top := filepath.Join("..", "..")
	var files []string
	for _, pattern := range []string{"*/room.mk", "*/*/room.mk", "*/*/*/room.mk"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			if rest, recipe := strings.CutPrefix(line, "\t"); recipe && strings.Contains(rest, "$(MAKE)") &&
				!strings.HasPrefix(strings.TrimPrefix(rest, "$(Q)"), "$(MAKE) ") {
				t.Errorf("%s: make -n executes %q", file, line)
			}
		}
	}
}

// Root may write everywhere, so make runs as another user.
func TestMake_unwritable(t *testing.T) {
	for _, readOnly := range []string{".", "build"} {
		dir := copyFrame(t, roomMk)
		if err := os.MkdirAll(filepath.Join(dir, readOnly), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, readOnly), 0o555); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("make", "check")
		cmd.Dir, cmd.Env = dir, cleanEnv()
		if os.Getuid() == 0 {
			for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if want := "you may not write to '" + readOnly + "'"; err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v; want %q in\n%s", readOnly, err, want, out)
		}
		if err := os.Chmod(filepath.Join(dir, readOnly), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The files that suites need are built in parallel and once, before any suite runs.
func TestMake_jobs(t *testing.T) {
	dir := copyFrame(t, roomMk+`CHECK_SUITES += pair
suite_pair = sort $(B)/built | tr '\n' ' ' | grep -qx 'one two ' && printf 'ok 1 - once\n1..1\n'
suite_pair_needs = $(B)/one $(B)/two
$(B)/one: other = two
$(B)/two: other = one
$(B)/one $(B)/two: FORCE
	touch $@
	n=0; while [ ! -e $(B)/$(other) ] && [ $$n -lt 400 ]; do n=$$((n+1)); sleep 0.05; done; [ -e $(B)/$(other) ]
	echo $(@F) >>$(B)/built
`)
	if err := os.WriteFile(filepath.Join(dir, "mk/setup.sh"), []byte("mkdir -p build\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := makeIn(dir, "test", "-j2"); err != nil || !strings.Contains(out, "ok   pair") {
		t.Errorf("make test -j2: %v\n%s", err, out)
	}
	out, err := makeIn(dir, "test", "-n")
	_, rest, _ := strings.Cut(out, " -j")
	var jobs int
	if _, scan := fmt.Sscanf(rest, "%d --output-sync=target test-build\n", &jobs); err != nil || scan != nil ||
		jobs < 1 || jobs > runtime.NumCPU() {
		t.Errorf("make test -n: %v: no number of jobs in\n%s", err, out)
	}
}

// CI's command ends with the closing line, whatever make prints at its end.
func TestCI(t *testing.T) {
	tests := []struct{ name, fragment, want string }{
		{"green", roomMk, "\n4 passed, 0 failed, 0 skipped\n"},
		{"red", strings.Replace(roomMk, "ok 1 - under", "not ok 1 - under", 1), "\n3 passed, 1 failed, 0 skipped\n"},
		{"broken build", roomMk + "PROGRAMS += $(B)/gone\n", "\n0 passed, 1 failed, 0 skipped\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyFrame(t, tt.fragment)
			setup := filepath.Join(dir, "mk/setup.sh")
			if err := os.WriteFile(setup, []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(dir, ".ci/run"))
			cmd.Env = cleanEnv()
			out, err := cmd.CombinedOutput()
			if (err == nil) != (tt.name == "green") || !strings.HasSuffix(string(out), tt.want) {
				t.Errorf("%v; want %q at the end of\n%s", err, tt.want, out)
			}
			if n := strings.Count(string(out), " skipped\n"); n != 1 {
				t.Errorf("%d closing lines in\n%s", n, out)
			}
		})
	}
}

// A whole run runs a failed suite again. A strict run, or a run of named suites, does not.
func TestMake_again(t *testing.T) {
	dir := copyFrame(t, roomMk+`CHECK_SUITES += wobbly
suite_wobbly = if mkdir $(B)/once 2>/dev/null; then printf 'not '; fi; echo ok 1 - it stands; echo 1..1
`)
	for _, tt := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"test-run"}, true},
		{[]string{"check"}, true},
		{[]string{"test-run", "STRICT="}, true},
		{[]string{"test-run", "STRICT=1"}, false},
		{[]string{"check", "STRICT=1"}, false},
		{[]string{"test-run", "T=wobbly"}, false},
	} {
		if err := os.RemoveAll(filepath.Join(dir, "build/once")); err != nil {
			t.Fatal(err)
		}
		out, err := makeIn(dir, tt.args...)
		const saved = "  unsteady wobbly: failed once, passed alone: build/test/wobbly.first.log"
		if tt.ok != (err == nil) || tt.ok != strings.Contains(out, saved) || !strings.Contains(out, "not ok: wobbly: it stands") {
			t.Errorf("make %v: %v\n%s", tt.args, err, out)
		}
	}
}

func TestMake_rebuild(t *testing.T) {
	dir := copyFrame(t, roomMk)
	if out, err := makeIn(dir); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	out, err := makeIn(dir)
	if err != nil || strings.Contains(out, "prog") {
		t.Errorf("a second make has work to do: %v\n%s", err, out)
	}
	header := filepath.Join(dir, "room/prog.h")
	if err := os.WriteFile(header, []byte("#error changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := makeIn(dir); err == nil || !strings.Contains(out, "changed") {
		t.Errorf("a changed header went unnoticed: %v\n%s", err, out)
	}
}

func TestMake_empty(t *testing.T) {
	dir := copyFrame(t, "")
	for _, target := range []string{"demo-run", "demo-run BUILT=yes", "bench", "fuzz", "soak", "windows-kit", "wine", "vm-run", "check"} {
		if out, err := makeIn(dir, strings.Fields(target)...); err == nil {
			t.Errorf("make %s has nothing to do and says it did it:\n%s", target, out)
		}
	}
}
