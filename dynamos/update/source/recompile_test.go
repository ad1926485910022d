// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make starts once for a patch of sources, and twice for one of headers, from which it may
// derive others. Its types are told once in either case.
func TestMakeStartsOnce(t *testing.T) {
	for _, c := range []struct{ what, patch, want string }{
		{"a source", changeHunk("mm/leaf.c", leafC, "STEP(a)", "STEP(a) * 2"), "1 0"},
		{"a header", changeHunk("include/small.h", smallH, "+ 1", "+ 2"), "4 0"},
	} {
		w, err := smallTree(t).Patch(t.Context(), []byte(c.patch))
		if err != nil {
			t.Fatal(err)
		}
		units, err := w.Assemble(t.Context(), io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if d, err := w.Declared(t.Context(), "mm/leaf.c"); err != nil || d.Own["leaf"].Args != 1 {
			t.Errorf("%s: %+v, %v", c.what, d, err)
		}
		if change, err := w.Change(units[0]); err != nil || !slices.Equal(change.Changed, []string{"leaf"}) {
			t.Errorf("%s: %v, %v", c.what, change, err)
		}
		text, err := os.ReadFile(filepath.Join(w.Dir, "tree", "made-by-make"))
		got := formatInt(strings.Count(string(text), "\n")) + " " + formatInt(strings.Count(string(text), "-gdwarf"))
		if err != nil || got != c.want {
			t.Errorf("%s: make compiled %s, want %s: %s", c.what, got, c.want, text)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where no command was kept, or not this one, make compiles each time.
func TestMakeCompilesWhatKeepsNoCommand(t *testing.T) {
	for what, text := range map[string]string{"no command": "", "of another target": "cmd_mm/else.s := true -O2\n", "other flags": "cmd_mm/leaf.s := gcc -O2\n"} {
		tree := smallTree(t)
		made := strings.Replace(smallMake, "\techo $@ $(KCFLAGS)", "\tprintf '"+strings.ReplaceAll(text, "\n", "\\n")+"' >$(@D)/.$(@F).cmd\n\techo $@ $(KCFLAGS)", 1)
		writeFiles(t, tree.Dir, map[string]string{"Makefile": made})
		w, err := tree.Patch(t.Context(), []byte(changeHunk("mm/leaf.c", leafC, "STEP(a)", "STEP(a) * 2")))
		if err != nil {
			t.Fatal(err)
		}
		units, err := w.Assemble(t.Context(), io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if change, err := w.Change(units[0]); err != nil || !slices.Equal(change.Changed, []string{"leaf"}) || w.declared["mm/leaf.c"].Own["leaf"].Args != 1 {
			t.Errorf("%s: %v, %v", what, change, err)
		}
		list, err := os.ReadFile(filepath.Join(w.Dir, "tree", "made-by-make"))
		if err != nil || strings.Count(string(list), "\n") != 3 || strings.Count(string(list), "-gdwarf") != 1 {
			t.Errorf("%s: make compiled %s, %v", what, list, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What does not compile is told by make, once.
func TestPatchedSourceThatDoesNotCompile(t *testing.T) {
	w, err := smallTree(t).Patch(t.Context(), []byte(changeHunk("mm/leaf.c", leafC, "STEP(a)", "STOP(a")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var says strings.Builder
	_, err = w.Assemble(t.Context(), &says)
	var failed *CompileError
	if !errors.As(err, &failed) || !strings.Contains(failed.FullText(), "STOP") || strings.Count(says.String(), "after the patch") != 1 {
		t.Errorf("%v after %q", err, says.String())
	}
}

// The command is as the shell has it; what make writes for itself is taken back.
func TestCommandThatMakeKept(t *testing.T) {
	tree := smallTree(t)
	_, given, _ := strings.Cut(roundFlags, "=")
	for _, c := range []struct{ text, want string }{
		{"cmd_mm/leaf.s := cc " + given + " -S -DN='\"a$(pound)b$$c\"' -o mm/leaf.s mm/leaf.c\n\nsource_mm/leaf.s := mm/leaf.c\n", "cc -g -S -DN='\"a#b$c\"' -o mm/leaf.s mm/leaf.c"},
		{"savedcmd_mm/leaf.s := cc " + given + " \\#x\n", "cc -g #x"},
		{"savedcmd_mm/leaf.o := cc " + given + "\n", ""},
		{"cmd_mm/leaf.s := cc " + given + " " + given + "\n", ""},
		{"cmd_mm/leaf.s := cc\n", ""},
		{"cmd_mm/leaf.s = cc " + given + "\n", ""},
		{"", ""},
	} {
		writeFiles(t, tree.Dir, map[string]string{"mm/.leaf.s.cmd": c.text})
		if got, ok := tree.readCommand("mm/leaf.s", "KCFLAGS=-g"); got != c.want || ok != (c.want != "") {
			t.Errorf("%q gives %q, %v, want %q", c.text, got, ok, c.want)
		}
	}
	if _, ok := tree.readCommand("mm/none.s", "KCFLAGS=-g"); ok {
		t.Error("there is a command without a file")
	}
}

// A copy for units alone has links to whole folders, and its own of what is written. The
// tree stays as it was.
func TestCopyOfUnitsFolders(t *testing.T) {
	tree := smallTree(t)
	tree.Kernel.Release = "6.1.0-9"
	writeFiles(t, tree.Dir, map[string]string{"mm/sub/x.h": "h", "mm/deep/er/y.c": "y", "include/config/SMP": "", "include/config/auto.conf": "CONFIG_SMP=y\n",
		"include/linux/a.h": "a", "include/config/kernel.release": "old\n", "scripts/x": "x", ".tmp_15139/tmp": ""})
	to := filepath.Join(t.TempDir(), "copy")
	if err := tree.linkFolders(t.Context(), to, []string{"mm/leaf.c", "mm/deep/er/y.c"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"mm": "own", "mm/sub": "link", "mm/deep": "own", "mm/deep/er": "own", "fs": "link", "scripts": "link", "include": "own",
		"include/linux": "link", "include/generated": "own", "include/config": "own", "include/config/SMP": "none", "include/config/auto.conf": "own", ".tmp_15139": "none",
		"mm/deep/er/y.c": "own", "include/small.h": "own"} {
		got := "own"
		if info, err := os.Lstat(filepath.Join(to, name)); err != nil {
			got = "none"
		} else if info.Mode()&os.ModeSymlink != 0 {
			got = "link"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	w, _, err := tree.Originals(t.Context(), []string{"mm/leaf.c"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for dir, want := range map[string]string{tree.Dir: "old\n", filepath.Join(w.Dir, "tree"): "6.1.0-9\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, "include/config/kernel.release")); err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
}
