// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
)

// leafTree is the source of a kernel that consists of one file.
func leafTree(t *testing.T) *source.Tree {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source", "6.1.9-1")
	for name, text := range map[string]string{
		"Makefile":      "%.s: %.c prepare\n\t$(CC) -S -O2 -fno-pic -fcf-protection=none -pg -mfentry $(KCFLAGS) -o $@ $<\nprepare:\n.PHONY: prepare\n",
		"mm/leaf.c":     "int leaf(int a)\n{\n\treturn a + 1;\n}\n",
		".config":       "CONFIG_X=y\n",
		".skep-objects": "image mm/leaf.c\n", "include/generated/bounds.h": "\n", "include/generated/asm-offsets.h": "\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &source.Tree{Kernel: source.Kernel{Version: "6.1.9-1"}, Dir: dir, Compiler: "gcc"}
}

// A patch without effect and one that does not compile give no package.
func TestPatchThatGivesNoModule(t *testing.T) {
	tree := leafTree(t)
	for name, c := range map[string]struct{ line, why string }{
		"only a comment is added": {"\treturn a + 1; /* the next */", "the patch changes no code of the kernel's image"},
		"it does not compile":     {"\treturn b + 1;", "undeclared"},
		"its assembly ends early": {"\tasm(\".popsection\"); return a + 2;", "a section is popped that was not pushed"},
	} {
		p := &Plan{Patch: []byte("--- a/mm/leaf.c\n+++ b/mm/leaf.c\n@@ -3 +3 @@\n-\treturn a + 1;\n+" + c.line + "\n"), Says: io.Discard}
		b := &builder{plan: p, out: &pack.Package{}, gates: map[string]*image.File{}, tree: tree, image: &image.Image{}}
		err := b.buildModule(t.Context())
		var refused *RefusedError
		if !errors.As(buildRefused(err), &refused) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		var compile *source.CompileError
		if says := errors.As(buildRefused(err), &compile); says != (c.why == "undeclared") {
			t.Errorf("%s: the refusal has the compiler's messages: %v", name, says)
		}
		if len(b.out.Kernels) != 0 {
			t.Errorf("%s: the package has %+v", name, b.out.Kernels)
		}
	}
}

// What no package can hold, or no module of the kernel, is refused as the patch's fault.
func TestPackageThatCannotBe(t *testing.T) {
	out := &pack.Package{Manifest: pack.Manifest{Name: "fix", Class: pack.Any, Proposed: pack.Any}, Modules: map[string][]byte{}}
	_, err := finishPackage(out, "")
	wantRefusal(t, "no kernel", err, "it is for 0 kernels")
	_, err = finishPackage(out, "it is so")
	wantRefusal(t, "a reason without need", err, "leave it out")
	b := &builder{work: &source.Work{Module: "leaf"}, image: &image.Image{}}
	wantRefusal(t, "no module", b.addModule([]byte("text")), "the module leaf: ")
}

// A kernel that cannot be had is named.
func TestBuildNamesTheKernel(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := Build(t.Context(), Plan{Name: "fix", Kernels: []string{"../6.1"}, Says: io.Discard})
	if p != nil || err == nil || !strings.HasPrefix(err.Error(), "for Linux ../6.1: ") {
		t.Errorf("%v, %v", p, err)
	}
}
