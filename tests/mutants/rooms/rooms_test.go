// SPDX-License-Identifier: MIT

package rooms

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"skep/tests/mutants/sandbox"
)

// A suite of Go's ends with the first failed test, and other commands stay as they are.
func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rooms")
	text := "room\tbuild/x\tfast\tgo,parallel\t60\tBUILD=b go test -count=1 -json ./room\n room\t\tslow\ttap\t300\tsh room/slow.sh\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := Read(file)
	if err != nil || len(list) != 1 || len(list[0].Suites) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	fast, slow := list[0].Suites[0], list[0].Suites[1]
	if fast.Kind != "go" || fast.Command != "BUILD=b go test -failfast -vet=off -count=1 -json ./room" || !slices.Equal(fast.Needs, []string{"build/x"}) {
		t.Errorf("the fast suite: %+v", fast)
	}
	if slow.Kind != "tap" || slow.Command != "sh room/slow.sh" || slow.Timeout != 5*time.Minute {
		t.Errorf("the slow suite: %+v", slow)
	}
}

// Only files that the suites of the room compile may be mutated, and headers only if such a
// file includes them: no suite could see any other mutant.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	tree := map[string]string{
		"Makefile":         "build/t: room/t.c gone.c\n\tgcc -o $@ $^\nbuild/w.exe: room/windows/w.c\n\tgcc -o $@ $^\n",
		"room/t.c":         "#include <stdio.h>\n#include \"near.h\"\n #  include \"room/top.h\"\n#include <skep/x.h>\n",
		"room/near.h":      "#include \"deep/er.h\"\n",
		"room/deep/er.h":   "#include \"../near.h\"\n",
		"room/top.h":       "/* #include \"room/said.h\" */\n",
		"room/said.h":      "",
		"room/windows/w.c": "#include \"w.h\"\n",
		"room/windows/w.h": "",
		"include/skep/x.h": "#include \"room/far.h\"\n",
		"room/far.h":       "",
		"room/x.go":        "package x\n",
		"room/x_plan9.go":  "package x\n",
		"room/x_test.go":   "package x\n",
		"gone.c":           "",
	}
	var sources []string
	for name, text := range tree {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, name)
	}
	r := &Room{Name: "room", Suites: []sandbox.Trial{{Needs: []string{"build/t"}}}}
	got, err := r.Files(dir, sources)
	slices.Sort(got)
	want := []string{"room/deep/er.h", "room/far.h", "room/near.h", "room/t.c", "room/top.h", "room/x.go"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
