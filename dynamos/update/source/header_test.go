// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
)

const wellText = "#define DEPTH 4\nint deep(int);\nstruct well { int depth; };\n"

// moduleTree is a small tree with a module of two sources, and another module.
func moduleTree(t *testing.T) *Tree {
	t.Helper()
	tree := smallTree(t)
	one := "\techo '  CC [M]  fs/part.o'; : -D__KBUILD_MODNAME=kmod_part\n"
	makefile := strings.Replace(smallMake, one, one+"\techo '  CC [M]  fs/dir/../more.o'; : -D__KBUILD_MODNAME=kmod_part\n", 1)
	makefile = strings.Replace(makefile, "modules: fs/part.o", "modules: fs/part.o fs/apart.o", 1)
	writeFiles(t, tree.Dir, map[string]string{"Makefile": makefile, "modules.order": "kernel/fs/apart.ko\nkernel/fs/part.ko\n",
		"fs/part.h": wellText, "fs/own.h": wellText, "fs/dir/keep": "",
		"fs/more.c":  "#include \"own.h\"\nint more(void) { return DEPTH; }\n",
		"fs/apart.c": "#include <small.h>\n#include \"part.h\"\nint apart(struct well *w) { return w->depth; }\n"})
	tree.Kernel.Modules = filepath.Join(tree.Dir, "modules.order")
	return tree
}

// insertLine is a patch that puts a line before a file's first.
func insertLine(path, before, line string) string {
	first, _, _ := strings.Cut(before, "\n")
	return "--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1,2 @@\n+" + line + "\n " + first + "\n"
}

// A patch of a module takes along the module's sources that see a changed header.
func TestHeaderOfAModule(t *testing.T) {
	for what, c := range map[string]struct {
		patch string
		units []string
		skip  string
	}{
		"a macro of the module's own": {changeHunk("fs/own.h", wellText, "DEPTH 4", "DEPTH 5"), []string{"fs/more.c", "fs/part.c"}, ""},
		"a macro that is new, where the image looks": {insertLine("include/small.h", smallH, "#define LEAP(a) (a)"),
			[]string{"fs/part.c"}, "include/small.h: no file of the module sees a difference"},
		"a function that is new": {insertLine("fs/own.h", wellText, "int deeper(int);"), []string{"fs/part.c"},
			"fs/own.h: no code comes of what changes there"},
		"a file that is included": {insertLine("fs/own.h", wellText, "#include <small.h>"), []string{"fs/more.c", "fs/part.c"}, ""},
	} {
		w, err := moduleTree(t).Patch(t.Context(), []byte(addLine("fs/part.c")+c.patch))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var skips []string
		for _, s := range w.Skips {
			skips = append(skips, s.Path+": "+s.Why)
		}
		if w.Module != "part" || !slices.Equal(w.Units, c.units) || strings.Join(skips, "; ") != c.skip {
			t.Errorf("%s: module %s, units %q, skips %q", what, w.Module, w.Units, skips)
		}
	}
}

// What the image or another module sees of a header stays as it is.
func TestHeaderOfAModuleThatOthersSee(t *testing.T) {
	for why, patch := range map[string]string{
		"include/small.h:2: mm/leaf.c sees what changes in this header, and is no part of the module part": changeHunk("include/small.h", smallH, "+ 1", "+ 2"),
		"fs/part.h:3: fs/apart.c sees what changes in this header":                                         changeHunk("fs/part.h", wellText, "int depth;", "int at, depth;"),
	} {
		_, err := moduleTree(t).Patch(t.Context(), []byte(addLine("fs/part.c")+patch))
		var r *asm.Refusal
		if !errors.As(err, &r) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, not %q", err, why)
		}
	}
}

// A source that is compiled by way of another folder is not left aside.
func TestSourceOfAnotherFolder(t *testing.T) {
	for _, with := range []string{"", changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`)} {
		tree := moduleTree(t)
		writeFiles(t, tree.Dir, map[string]string{"fs/more.c": "#include <small.h>\n"})
		_, err := tree.Patch(t.Context(), []byte(addLine("fs/more.c")+with))
		var r *asm.Refusal
		if !errors.As(err, &r) || !strings.Contains(err.Error(), "fs/more.c:2: this file is compiled for a module of another folder") {
			t.Errorf("%v", err)
		}
	}
}

// Where make fails for a file of a module, its words are passed on: this is no file of
// another folder.
func TestMakeThatFailsForAModule(t *testing.T) {
	tree := moduleTree(t)
	if _, err := tree.moduleSources(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(tree.Dir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, tree.Dir, map[string]string{"Makefile": string(text) + "\nfs/part.o: tool\n"})
	_, err = tree.Patch(t.Context(), []byte(addLine("fs/part.c")))
	var r *asm.Refusal
	if errors.As(err, &r) || err == nil || !strings.Contains(err.Error(), "fs/part.c: the kernel's make fails") || !strings.Contains(err.Error(), "No rule to make target 'tool'") {
		t.Errorf("%v", err)
	}
}

// A header is not followed where it is not known what a module is made of.
func TestModuleThatIsNotListed(t *testing.T) {
	tree := moduleTree(t)
	patch := []byte(addLine("fs/part.c") + changeHunk("fs/own.h", wellText, "DEPTH 4", "DEPTH 5"))
	writeFiles(t, tree.Dir, map[string]string{"modules.order": "kernel/fs/apart.ko\n"})
	if _, err := tree.Patch(t.Context(), patch); err == nil || !strings.Contains(err.Error(), "does not list the module part") {
		t.Errorf("another list: %v", err)
	}
	writeFiles(t, tree.Dir, map[string]string{"modules.order": "kernel/mm/part.ko\n"})
	if _, err := tree.Patch(t.Context(), patch); err == nil || !strings.Contains(err.Error(), "would compile nothing for the module part") {
		t.Errorf("a wrong folder: %v", err)
	}
	tree.Kernel.Modules = filepath.Join(tree.Dir, "none")
	if _, err := tree.Patch(t.Context(), patch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no list: %v", err)
	}
}
