// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// objectsFile lists what the kernel's make would compile for the image, a line
// each: "image" and the source. Older ones list modules' files too.
const objectsFile = ".skep-objects"

// modulesFile lists the sources of modules, once somebody asked for them.
const modulesFile = ".skep-modules"

var compiles = lazy.Regexp(`echo '  CC (    |\[M\]) +([a-zA-Z0-9_./+-]+)\.o'`)

// namesModule finds the module that the compiler is told.
var namesModule = lazy.Regexp(`KBUILD_MODNAME=kmod_([A-Za-z0-9_]+)`)

// listObjects asks make what a build of the image would compile. Modules have
// five times as many files, and few patches ask for those.
func (t *Tree) listObjects(ctx context.Context) error {
	out, err := t.wouldCompile(ctx, "vmlinux")
	if err != nil {
		return err
	}
	seen := t.compiledSources(out, "")
	if len(seen) < 1000 {
		return fmt.Errorf("make would compile only %d files: the source is not whole", len(seen))
	}
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintln(&text, "image", path)
	}
	return os.WriteFile(filepath.Join(t.Dir, objectsFile), []byte(text.String()), 0o644)
}

// moduleSources returns the sources of all modules: a minute for the first who asks.
func (t *Tree) moduleSources(ctx context.Context) (map[string]bool, error) {
	file := filepath.Join(t.Dir, modulesFile)
	text, err := os.ReadFile(file)
	if err == nil {
		seen := map[string]bool{}
		for _, name := range strings.Fields(string(text)) {
			seen[path.Clean(name)] = true
		}
		return seen, nil
	}
	out, err := t.wouldCompile(ctx, "vmlinux", "modules")
	if err != nil {
		return nil, err
	}
	seen := t.compiledSources(out, "[M]")
	if len(seen) == 0 {
		return nil, errors.New("make would compile no modules: the source is not whole")
	}
	list := strings.Join(slices.Sorted(maps.Keys(seen)), "\n") + "\n"
	part := fmt.Sprintf("%s.%d", file, os.Getpid()) // others may ask too
	if err := os.WriteFile(part, []byte(list), 0o644); err != nil {
		return nil, err
	}
	return seen, os.Rename(part, file)
}

// compiledSources picks the sources out of make's lines: mark is [M] for modules.
func (t *Tree) compiledSources(out, mark string) map[string]bool {
	seen := map[string]bool{}
	for _, m := range compiles().FindAllStringSubmatch(out, -1) {
		name := path.Clean(m[2]) + ".c" // amdgpu takes sources by way of ..
		if strings.TrimSpace(m[1]) == mark && exists(filepath.Join(t.Dir, name)) {
			seen[name] = true
		}
	}
	return seen
}

// wouldCompile returns the lines by which make tells of compiling. It goes on
// where a target cannot be made: nothing is, so others are missing.
func (t *Tree) wouldCompile(ctx context.Context, targets ...string) (string, error) {
	const script = `make -n -k "$@" | grep -o -e "echo '  CC [^']*'" -e "KBUILD_MODNAME=kmod_[A-Za-z0-9_]*" || :`
	args := append([]string{"-uc", script, "sh"}, t.loudArgs(targets...)...)
	out, err := runOutput(ctx, t.Dir, nil, "sh", args...)
	return string(out), err
}

// imageSources returns the sources of the image.
func (t *Tree) imageSources() (map[string]bool, error) {
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

// KindOf says what the kernel's make compiles a source into: "image", "module", or
// "nothing".
func (t *Tree) KindOf(ctx context.Context, path string) (string, error) {
	image, err := t.imageSources()
	if err != nil {
		return "", err
	}
	if image[path] {
		return "image", nil
	}
	modules, err := t.moduleSources(ctx)
	if err != nil || !modules[path] {
		return "nothing", err
	}
	return "module", nil
}

// moduleOf names the module that make compiles a file for. It is a module's if ok;
// without a name it is part of several. A toolError has make's own words: make has
// no rule for files of other architectures, and fails for what is wrong in the tree.
func (t *Tree) moduleOf(ctx context.Context, path string) (module string, ok bool, err error) {
	name, isC := strings.CutSuffix(path, ".c")
	if !isC {
		return "", false, nil
	}
	out, err := runOutput(ctx, t.Dir, nil, "make", append([]string{"-n"}, t.loudArgs(name+".o")...)...)
	_, behind, ok := strings.Cut(string(out), "echo '  CC [M]  "+name+".o'")
	own, _, _ := strings.Cut(behind, "echo ") // up to the next file
	if m := namesModule().FindStringSubmatch(own); m != nil {
		module = m[1]
	}
	return module, ok, err
}

// loudArgs are makeArgs with which make prints what it does.
func (t *Tree) loudArgs(targets ...string) []string {
	return slices.DeleteFunc(t.makeArgs(targets...), func(s string) bool { return s == "-s" })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
