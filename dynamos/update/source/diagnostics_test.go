// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeFiles writes files into a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrorOfToolIsReported(t *testing.T) {
	for script, want := range map[string]string{
		"echo said; echo wrong >&2; exit 3": "sh: exit status 3: wrong",
		"echo said; exit 4":                 "sh: exit status 4: said",
	} {
		if _, err := runOutput(t.Context(), "", nil, "sh", "-c", script); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runOutput(ctx, "", nil, "sh", "-c", "exit 5"); !errors.Is(err, context.Canceled) {
		t.Errorf("one that was called off: %v", err)
	}
}

// Before anything is fetched, what is missing on the computer is named.
func TestSourceIsNotPreparedWithoutItsTools(t *testing.T) {
	dir := t.TempDir()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(gcc, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(strings.SplitN(string(out), "\n", 2)[0], " ")
	writeFiles(t, dir, map[string]string{"config": "\nCONFIG_CC_VERSION_TEXT=\"gcc " + version + "\"\n", "symvers": ""})
	if err := os.Symlink(gcc, filepath.Join(dir, "gcc")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	k := Kernel{Version: "6.1.9-1", Config: filepath.Join(dir, "config"), Symvers: filepath.Join(dir, "symvers")}
	tree, err := PrepareTree(t.Context(), filepath.Join(dir, "cache"), k, io.Discard)
	if tree != nil || err == nil || !strings.HasPrefix(err.Error(), "source 6.1.9-1: ") {
		t.Errorf("%+v, %v", tree, err)
	}
}

// Each tool that is missing is named, and none that is there.
func TestMissingToolsAreNamed(t *testing.T) {
	all := []string{"make", "flex", "bison", "bc", "xz", "patch", "dpkg-deb", "tar"}
	for n := range len(all) + 1 {
		dir, missing := t.TempDir(), "libelf-dev" // no compiler is there to find its header
		for i, tool := range all {
			if i >= n {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if n < len(all) {
			missing = strings.Join(all[n:], ", ") + ", " + missing
		}
		t.Setenv("PATH", dir)
		if err := needTools(t.Context()); err == nil || err.Error() != "to compile a kernel's files, install "+missing {
			t.Errorf("%d tools: %v, want %s", n, err, missing)
		}
		if err := os.WriteFile(filepath.Join(dir, "gcc"), []byte("#!/bin/sh\nread line; test \"$line\" = '#include <gelf.h>'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := needTools(t.Context()); (err == nil) != (n == len(all)) {
			t.Errorf("%d tools and the header: %v", n, err)
		}
	}
}

func TestSourceThatDoesNotCompileIsReported(t *testing.T) {
	tree := smallTree(t)
	writeFiles(t, tree.Dir, map[string]string{"include/box.h": boxH, "mm/leaf.c": "#include <box.h>\nint leaf(struct nothing a) { return 1; }\n"})
	w, err := tree.Patch(t.Context(), []byte(changeHunk("include/box.h", boxH, "short pad", "long pad")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	list, err := w.Layouts(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the unpatched source does not compile: ") || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

func TestFileThatCannotBeReadIsAnError(t *testing.T) {
	tree := smallTree(t)
	w := &Work{tree: tree, old: map[string]string{}, new: map[string]string{}}
	if err := w.read(t.Context(), part{path: "mm/gone.c", text: []byte(changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`))}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A function is named where it is defined, before who only speaks of it.
func TestLineIsThatOfTheDefinition(t *testing.T) {
	w := &Work{Dir: t.TempDir()}
	writeFiles(t, w.Dir, map[string]string{"tree/mm/leaf.c": "int first;\n\n/* leaf is small */\n#define LEAF leaf\nint tree(void)\n{\n\treturn leaf();\n}\n * leaf\nint leaf(void)\n{\n\treturn leaf();\n}\n"})
	for name, want := range map[string]int{"leaf": 10, "tree": 5, "leaf.isra.0": 10, "twig": 0} {
		if got := w.Line("mm/leaf.c", name); got != want {
			t.Errorf("%s is in line %d, not %d", name, got, want)
		}
	}
}

// What a macro or inline function reads through a pointer to a changed
// structure changes as well; what only hands the pointer on does not.
func TestNarrowFollowsWhoReadsThroughAPointer(t *testing.T) {
	tree := &Tree{Dir: t.TempDir()}
	writeFiles(t, tree.Dir, map[string]string{
		"include/wide.h": wideH,
		"include/hold.h": "#include <wide.h>\nstruct list { struct box *first; };\n#define TOP(l) ((l)->first->height)\n#define EMPTY(l) ((l)->first == 0)\n" +
			"static inline int top(struct list *l) { return l->first->height; }\nstatic inline int empty(struct list *l) { return l->first == 0; }\n",
		"inline.c":  "#include <hold.h>\nint f(struct list *l) { return top(l); }\n",
		"macro.c":   "#include <hold.h>\nint f(struct list *l) { return TOP(l); }\n",
		"handing.c": "#include <hold.h>\nint f(struct list *l) { return empty(l); }\n",
		"hands.c":   "#include <hold.h>\nint f(struct list *l) { return EMPTY(l); }\n",
	})
	users := []string{"handing.c", "hands.c", "inline.c", "macro.c"}
	got := tree.narrowUsers(newIncludes(tree.Dir), users, wideH, strings.Replace(wideH, "int width, height", "int width, depth, height", 1))
	if !slices.Equal(got, []string{"inline.c", "macro.c"}) {
		t.Errorf("got %v", got)
	}
}
