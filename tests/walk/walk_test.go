// SPDX-License-Identifier: MIT

package walk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skep/tests/built"
)

const root = "../.."

func buildDir(t *testing.T) string {
	t.Helper()
	return built.Folder(t, "make test T=walk")
}

func sourcePath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWorker(t *testing.T) {
	Start(t, buildDir(t), map[string]string{"examples": sourcePath(t, "examples")}).Page(root, "docs/walks/worker.md")
}

func TestOmniRPC(t *testing.T) {
	Start(t, buildDir(t), nil).Page(root, "docs/walks/omnirpc.md")
}

// README's commands for bee and for checking this machine.
func TestReadme(t *testing.T) {
	s := Start(t, buildDir(t), map[string]string{"examples": sourcePath(t, "examples")})
	s.Lines(root, "README.md", "build/bin/bee ", "build/bin/skep doctor", "gcc ")
	if out := s.runGood("build/app"); out != "pi * pi / 6 = 1.644934\n" {
		t.Errorf("the program for lent cores prints %q", out)
	}
}

// Each program and file that README names is in the tree, in what make builds, or made by an
// earlier line.
func TestReadmeSuppliesItsFiles(t *testing.T) {
	list, err := Read(filepath.Join(root, "README.md"), "README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, seen := "", 0
	for _, c := range list {
		for _, word := range strings.Fields(c.Text) {
			name := strings.TrimPrefix(strings.TrimPrefix(word, "image=$PWD/"), "./")
			if name == word && !strings.HasPrefix(word, "build/") && !strings.HasPrefix(word, "tests/") && !strings.HasPrefix(word, "examples/") {
				continue
			}
			seen++
			_, missing := os.Stat(filepath.Join(root, name))
			built := strings.HasPrefix(name, "build/bin/") || strings.HasPrefix(name, "build/kmod/")
			made := regexp.MustCompile(`(-o|venv|--master|mkdir -p) (\S*/)?` + regexp.QuoteMeta(strings.SplitN(strings.TrimPrefix(name, "build/"), "/", 2)[0]) + `\b`)
			if missing != nil && !built && !made.MatchString(before+c.Text) && !strings.Contains(name, "*") {
				t.Errorf("README.md:%d: nothing makes %s", c.Line, word)
			}
		}
		before += c.Text + "\n"
	}
	if seen < 15 {
		t.Errorf("README names only %d files", seen)
	}
}

// The MPI is that of the tests; the page says how to install one.
func TestMPI(t *testing.T) {
	build := buildDir(t)
	s := Start(t, build, map[string]string{"build/mpich": filepath.Join(build, "mpi/mpich"), "tests/mpi": sourcePath(t, "tests/mpi")})
	s.Skip("python3 -m venv ", "skep mpirun --hosts ")
	s.Page(root, "docs/walks/mpi.md")
}

// The page's selectors choose this node by its labels and its memory.
func TestChosenNodes(t *testing.T) {
	s := Start(t, buildDir(t), map[string]string{"examples": sourcePath(t, "examples")})
	s.runGood("cp examples/hello/* . && skep gen --build hello.idl hello.c && skep gen --master master.c && echo 'int main(void) { return 0; }' | gcc -static -x c -o program -")
	s.Type(Command{Text: "skep up --label gpu=a30 --label room=c1", Prompt: "$", Output: []string{"…", "agent: connected to the hub …"}})
	s.Lines(root, "docs/running.md", "skep run --on ", "skep exec --on 'os=linux,room")
	s.joinOverSSH()
}

// joinOverSSH types the page's line for another machine. The shell's own ssh runs the command
// here, with a state of its own.
func (s *Session) joinOverSSH() {
	s.t.Helper()
	s.runGood(`mkdir ssh && printf '#!/bin/sh\nSKEP_STATE=$HOME/$1\nexport SKEP_STATE\nshift\nexec "$@"\n' >ssh/ssh && chmod +x ssh/ssh`)
	s.runGood("PATH=$PWD/ssh:$PATH")
	list, err := Read(filepath.Join(root, "docs/running.md"), "docs/running.md")
	if err != nil {
		s.t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(c Command) bool { return strings.HasPrefix(c.Text, "skep token | ssh node ") })
	if at < 0 {
		s.t.Fatal("the page has no line for ssh")
	}
	list[at].Output = []string{"…", "agent: connected to the hub …"}
	s.keepRunning(list[at], list[at].Text)
}

// The kit for Windows PCs measures Linux too.
func TestMeasuring(t *testing.T) {
	build := buildDir(t)
	s := Start(t, build, map[string]string{"build/skep-windows-kit.zip": filepath.Join(build, "skep-windows-kit.zip")})
	s.Skip("make ")
	s.runGood("unzip -q build/skep-windows-kit.zip -d build/kit")
	s.Page(root, "docs/measuring.md")
	text, err := os.ReadFile(filepath.Join(s.dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bar := range []string{"programs", "calls", "start", "eigen", "join"} {
		if !strings.Contains(string(text), `"bar": "`+bar+`"`) {
			t.Errorf("no figure of %s in %s", bar, text)
		}
	}
}

// The page's trace of a job: a file per rank, which jq or another reader of JSON can join.
func TestTrace(t *testing.T) {
	build := buildDir(t)
	s := Start(t, build, map[string]string{"build/mpich": filepath.Join(build, "mpi/mpich"), "tests/mpi": sourcePath(t, "tests/mpi")})
	s.runGood("PATH=$PWD/build/mpich/bin:$PATH; mpicc -o app tests/mpi/program.c")
	s.Lines(root, "docs/running.md", "mkdir trace")
	var events []map[string]any
	files, _ := filepath.Glob(filepath.Join(s.dir, "trace", "*.json"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			var own []map[string]any
			err = json.Unmarshal(text, &own)
			events = append(events, own...)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(files) != 4 || len(events) < 100 {
		t.Errorf("%d files with %d events", len(files), len(events))
	}
	s.Lines(root, "docs/running.md", "jq")
	var job []any
	text, err := os.ReadFile(filepath.Join(s.dir, "job.json"))
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	if err != nil || len(job) != len(events) {
		t.Errorf("jq made a file of %d events, not %d: %v", len(job), len(events), err)
	}
}
