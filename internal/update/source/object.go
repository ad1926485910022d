// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// objectsFile lists what the kernel's make would compile for the image, a line
// each: "image" and the source. Older ones list modules' files too.
const objectsFile = ".skep-objects"

var compiles = regexp.MustCompile(`echo '  CC (    |\[M\]) +([a-zA-Z0-9_./+-]+)\.o'`)

// listObjects asks make what a build of the image would compile. Modules have
// five times as many files, and only a patch of one of those asks for them.
func (t *Tree) listObjects(ctx context.Context) error {
	out, err := t.wouldCompile(ctx, "vmlinux")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, m := range compiles.FindAllStringSubmatch(out, -1) {
		if path := m[2] + ".c"; exists(filepath.Join(t.Dir, path)) {
			seen["image "+path] = true
		}
	}
	var lines []string
	for l := range seen {
		lines = append(lines, l)
	}
	if len(lines) < 1000 {
		return fmt.Errorf("make would compile only %d files: the source is not whole", len(lines))
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(t.Dir, objectsFile), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// wouldCompile gives the lines by which make tells of compiling. It goes on
// where a target cannot be made: nothing is, so others are missing.
func (t *Tree) wouldCompile(ctx context.Context, targets ...string) (string, error) {
	const script = `make -n -k "$@" | grep -o "echo '  CC [^']*'" || :`
	args := append([]string{"-uc", script, "sh"}, slices.DeleteFunc(t.arguments(targets...),
		func(s string) bool { return s == "-s" })...)
	out, err := output(ctx, t.Dir, nil, "sh", args...)
	return string(out), err
}

// objects gives the sources of the image.
func (t *Tree) objects() (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(t.Dir, objectsFile))
	if err != nil {
		return nil, err
	}
	image := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if kind, path, _ := strings.Cut(line, " "); kind == "image" {
			image[path] = true
		}
	}
	return image, nil
}

// inModule tells whether make compiles a file for a module.
func (t *Tree) inModule(ctx context.Context, path string) (bool, error) {
	name, isC := strings.CutSuffix(path, ".c")
	if !isC {
		return false, nil
	}
	out, err := t.wouldCompile(ctx, name+".o")
	for _, m := range compiles.FindAllStringSubmatch(out, -1) {
		if m[1] == "[M]" && m[2] == name {
			return true, err
		}
	}
	return false, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
