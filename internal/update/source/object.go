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

// objectsFile lists what the kernel's make would compile, a line each: "image"
// or "module", and the source.
const objectsFile = ".skep-objects"

var compiles = regexp.MustCompile(`echo '  CC (    |\[M\]) +([a-zA-Z0-9_./+-]+)\.o'`)

// listObjects asks make what a whole build would compile.
func (t *Tree) listObjects(ctx context.Context) error {
	const script = `make -n -k "$@" | grep -o "echo '  CC [^']*'" || :`
	args := append([]string{"-uc", script, "sh"}, slices.DeleteFunc(t.arguments("vmlinux", "modules"),
		func(s string) bool { return s == "-s" })...)
	out, err := output(ctx, t.Dir, nil, "sh", args...)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, m := range compiles.FindAllStringSubmatch(string(out), -1) {
		kind := "image"
		if m[1] == "[M]" {
			kind = "module"
		}
		if path := m[2] + ".c"; exists(filepath.Join(t.Dir, path)) {
			seen[kind+" "+path] = true
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

// objects gives the sources of the image and of its modules.
func (t *Tree) objects() (image, module map[string]bool, err error) {
	text, err := os.ReadFile(filepath.Join(t.Dir, objectsFile))
	if err != nil {
		return nil, nil, err
	}
	image, module = map[string]bool{}, map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		switch kind, path, _ := strings.Cut(line, " "); kind {
		case "image":
			image[path] = true
		case "module":
			module[path] = true
		}
	}
	return image, module, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
