// SPDX-License-Identifier: MIT

// Package rooms lists the files and suites of each room.
package rooms

import (
	"bytes"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/tests/mutants/mutate"
	"skep/tests/mutants/sandbox"
)

// A Room is a folder and the suites that test its mutants.
type Room struct {
	Name   string // the folder
	Suites []sandbox.Trial
}

// Read reads the file that make wrote.
func Read(path string) ([]*Room, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []*Room
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Split(strings.TrimLeft(line, " "), "\t")
		if len(f) != 6 {
			return nil, fmt.Errorf("%s:%d: want 6 fields, got %d", path, i+1, len(f))
		}
		seconds, err := strconv.Atoi(strings.TrimSpace(f[4]))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: bad deadline %q", path, i+1, f[4])
		}
		if len(list) == 0 || list[len(list)-1].Name != f[0] {
			list = append(list, &Room{Name: f[0]})
		}
		r := list[len(list)-1]
		kind, _, _ := strings.Cut(f[3], ",")
		r.Suites = append(r.Suites, sandbox.Trial{Name: f[2], Kind: kind, Command: shorten(f[5]),
			Needs: strings.Fields(f[1]), Timeout: time.Duration(seconds) * time.Second})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no suite", path)
	}
	return list, nil
}

// shorten makes Go's tests end with the first that fails, which says enough about a mutant.
// They leave out vet, which takes as long as the compiler: the sandbox runs it before.
func shorten(command string) string {
	return strings.Replace(command, "go test ", "go test -failfast -vet=off ", 1)
}

// Clone returns a copy whose deadlines can change independently.
func (r *Room) Clone() *Room {
	return &Room{Name: r.Name, Suites: slices.Clone(r.Suites)}
}

// Suite finds a suite by its name.
func (r *Room) Suite(name string) *sandbox.Trial {
	for i := range r.Suites {
		if r.Suites[i].Name == name {
			return &r.Suites[i]
		}
	}
	return nil
}

// Files returns the files of a copy of the tree that may be mutated: those that are compiled
// for this system, in Go or for the suites.
func (r *Room) Files(copy string, sources []string) ([]string, error) {
	var needs []string
	for _, s := range r.Suites {
		needs = append(needs, s.Needs...)
	}
	inC, err := compiledBy(copy, needs)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range sources {
		if !strings.HasPrefix(name, r.Name+"/") || !mutate.Product(name) {
			continue
		}
		ok := true
		switch filepath.Ext(name) {
		case ".c", ".h":
			ok = inC[name]
		case ".go":
			dir, base := filepath.Split(name)
			if ok, err = build.Default.MatchFile(filepath.Join(copy, dir), base); err != nil {
				return nil, err
			}
		}
		if ok {
			list = append(list, name)
		}
	}
	return list, nil
}

// compiledBy returns the files that make would compile for the targets if nothing were built
// (make -nB).
func compiledBy(copy string, targets []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(targets) == 0 {
		return found, nil
	}
	cmd := exec.Command("make", append([]string{"-nB", "V=1", "--no-print-directory"}, targets...)...)
	cmd.Dir = copy
	cmd.Env = sandbox.CleanEnv(os.Environ())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("make -n: %w: %s", err, stderr.String())
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasSuffix(word, ".c") {
			addIncluded(copy, filepath.Clean(word), found)
		}
	}
	return found, nil
}

// includeLine matches an include of a file of the tree, or of a system header.
var includeLine = regexp.MustCompile(`(?m)^\s*#\s*include\s*["<]([^">]+)[">]`)

// addIncluded adds a C file and the files that it includes, which are looked for where the
// compiler looks: beside the file, at the top, and in include.
func addIncluded(root, name string, found map[string]bool) {
	if found[name] {
		return
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return
	}
	found[name] = true
	for _, m := range includeLine.FindAllSubmatch(text, -1) {
		for _, dir := range []string{filepath.Dir(name), ".", "include"} {
			addIncluded(root, filepath.Join(dir, string(m[1])), found)
		}
	}
}
