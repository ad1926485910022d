// SPDX-License-Identifier: MIT

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain acts as process 1 of a sandbox if a test starts it so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-inside" {
		RunInside()
		return
	}
	os.Exit(m.Run())
}

// plantedTask creates a tree of one file, and a task whose suites are shell commands.
func plantedTask(t *testing.T, commands ...string) Task {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"tree", "warm/upper", "warm/work", "cache"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/tree/file", []byte("as it was"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-o", dir+"/warm/run", "../../run").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	task := Task{Box: Box{Tree: dir + "/tree", Warm: dir + "/warm", Cache: dir + "/cache"},
		Runner: dir + "/warm/run", BuildMax: time.Minute, MemoryMax: 1 << 30}
	for _, c := range commands {
		task.Suites = append(task.Suites, Trial{Name: "s", Kind: "exit", Command: c, Timeout: 2 * time.Minute})
	}
	return task
}

// runTask sends a task, and skips the test where there are no namespaces.
func runTask(t *testing.T, task Task) Answer {
	t.Helper()
	log, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a, err := Run(task, log, make(chan struct{}))
	if err != nil {
		if os.Geteuid() != 0 {
			t.Skipf("no sandbox for this user: %v", err)
		}
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	return a
}

// Mutated code cannot affect files and processes outside of the sandbox.
func TestWalls(t *testing.T) {
	bystander := exec.Command("sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { bystander.Process.Kill(); bystander.Wait() }()
	ended := make(chan error, 1)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	task := plantedTask(t, "echo changed >file && grep -q changed file",
		"test ! -e "+outside+" && ! touch "+here+"/planted", "rm -rf -- * && test ! -e file")
	if a := runTask(t, task); a.Outcome != Survived {
		t.Errorf("the walls: %+v", a)
	}
	task.Suites = task.Suites[:1]
	task.Suites[0].Command = "rm -rf /tmp/*; kill -KILL -1"
	if a := runTask(t, task); a.Outcome != Killed {
		t.Errorf("the suite that kills all: %+v", a)
	}
	go func() { ended <- bystander.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("a process outside ended: %v", err)
	default:
	}
	if text, err := os.ReadFile(task.Box.Tree + "/file"); string(text) != "as it was" {
		t.Errorf("the tree's file: %q, %v", text, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct{ command, outcome, why string }{
		{"true", Survived, ""},
		{"false", Killed, "exits with 0"},
		{"sleep 600", Hung, "deadline"},
		{"exec tail /dev/zero", Killed, "ended: "},
		{"while :; do sleep 600 & done", Killed, "processes"},
	} {
		task := plantedTask(t, c.command)
		task.MemoryMax = 200 << 20
		if c.outcome == Hung {
			task.Suites[0].Timeout = 2 * time.Second
		}
		if a := runTask(t, task); a.Outcome != c.outcome || !strings.Contains(a.Why, c.why) {
			t.Errorf("%s: %+v", c.command, a)
		}
	}
}

// A mutant that does not compile, in C or in Go, is distinguished from one that a suite detects.
func TestBroken(t *testing.T) {
	task := plantedTask(t, "true")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(task.Box.Tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("Makefile", "built: file.c\n\tgcc -c -o $@ $<\n")
	write("file.c", "int x;\n")
	write("go.mod", "module m\n")
	if err := os.Mkdir(filepath.Join(task.Box.Tree, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("p/file.go", "package p\n")
	goTask := task
	goTask.GoDirs = []string{"p"}
	task.Suites = []Trial{{Name: "s", Kind: "exit", Command: "test -e built", Needs: []string{"built"}, Timeout: time.Minute}}
	for _, c := range []struct {
		task             Task
		file, text, want string
	}{
		{task, "", "", Survived}, {task, "file.c", "int x\n", Broken},
		{goTask, "", "", Survived}, {goTask, "p/file.go", "package p\n\nfunc f() {\n", Broken},
	} {
		c.task.File, c.task.Text = c.file, []byte(c.text)
		if a := runTask(t, c.task); a.Outcome != c.want {
			t.Errorf("%s: %+v, want %s", c.file, a, c.want)
		}
	}
}

// The files built in the run without mutants are kept.
func TestKeep(t *testing.T) {
	task := plantedTask(t, "echo kept >built && echo kept >$GOCACHE/object")
	task.Box.Keep = true
	if a := runTask(t, task); a.Outcome != Survived {
		t.Fatalf("%+v", a)
	}
	next := task
	next.Box.Keep = false
	next.Suites = []Trial{{Name: "s", Kind: "exit", Timeout: time.Minute,
		Command: "grep -q kept built && grep -q kept $GOCACHE/object && rm $GOCACHE/object"}}
	for range 2 {
		if a := runTask(t, next); a.Outcome != Survived {
			t.Errorf("%+v", a)
		}
	}
	if _, err := os.Stat(task.Box.Cache + "/object"); err == nil {
		t.Error("the user's cache was written to")
	}
}
