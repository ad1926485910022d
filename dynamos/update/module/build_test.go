// SPDX-License-Identifier: MIT

package module

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
)

// A build system that makes no module, whether it says so or not, gives none.
func TestBuildThatMakesNoModuleIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		makefile string
		isIt     func(error) bool
		refused  bool
	}{
		"make fails with a message":               {"modules:\n\t@echo no rule for it >&2; false\n", func(err error) bool { return strings.Contains(err.Error(), "no rule for it") }, true},
		"make succeeds without making the module": {"modules:\n", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, false},
		"make writes a file that is not a module": {"modules:\n\t@echo text >$(M)/fix.ko\n", func(err error) bool { return strings.Contains(err.Error(), "not a module") }, false},
	} {
		p := examplePlan()
		p.Tree, p.Compiler = t.TempDir(), "gcc"
		for file, text := range map[string]string{"Makefile": c.makefile, "Module.symvers": "0x00000000\tvfs_read\tvmlinux\tEXPORT_SYMBOL\t\n"} {
			if err := os.WriteFile(filepath.Join(p.Tree, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := BuildModule(t.Context(), p); r != nil || err == nil || !c.isIt(err) || isRefused(err) != c.refused {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// isRefused reports whether no computer could make a module of this.
func isRefused(err error) bool {
	var change *asm.Refusal
	return errors.As(err, &change)
}

// A computer without make is no reason to refuse a patch.
func TestBuildWithoutMake(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := examplePlan().build(t.Context(), t.TempDir()); err == nil || isRefused(err) || !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// compileObject returns the object of an assembly text.
func compileObject(t *testing.T, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.s"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if says, err := exec.Command("gcc", "-c", "-o", filepath.Join(dir, "a.o"), filepath.Join(dir, "a.s")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, says)
	}
	ko, err := os.ReadFile(filepath.Join(dir, "a.o"))
	if err != nil {
		t.Fatal(err)
	}
	return ko
}

// The sizes of the new functions are those of the module's text, and what it uses is the
// kernel's, or the module stands back.
func TestModuleIsLinked(t *testing.T) {
	const both = "\t.globl fix_0_0, fix_0_0_end, fix_0_1, fix_0_1_end\nfix_0_0: .zero 24\nfix_0_0_end:\nfix_0_1: .zero 40\nfix_0_1_end:\n"
	r, err := examplePlan().linkModule(compileObject(t, both+"\tcall exported\n"), map[string]bool{"exported": true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Functions) != 3 || r.Functions[0].Size != 24 || r.Functions[1].Size != 40 || r.Functions[2].Size != 0 || r.Functions[2].Name != "h" {
		t.Errorf("%+v", r.Functions)
	}
	if len(r.Imports) != 0 || len(r.Module) == 0 {
		t.Errorf("imports %v", r.Imports)
	}
	own := examplePlan()
	own.Files = []File{{Extract: &asm.Extract{Path: "a.c", Locals: []asm.Local{{Name: "exported", Is: "exported"}}}, Gate: &image.File{}}}
	for what, c := range map[string]struct {
		plan *Plan
		text string
		want string
	}{
		"a symbol that the kernel lacks":  {examplePlan(), both + "\tcall unknown\n", "the new text uses unknown, which the kernel does not have"},
		"a static one with the same name": {own, both + "\tcall exported\n", "a.c: the file's exported is used nowhere in the kernel's own text"},
		"no end of a function":            {examplePlan(), strings.ReplaceAll(both, "fix_0_1_end", "other"), "it does not have fix_0_1 and behind it fix_0_1_end"},
		"no function":                     {examplePlan(), "\t.globl other\nother: nop\n", "it does not have fix_0_0 and behind it fix_0_0_end"},
		"no symbol":                       {examplePlan(), "", "it has no symbols"},
	} {
		r, err := c.plan.linkModule(compileObject(t, c.text), map[string]bool{"exported": true})
		var unknown *UnknownError
		refused := isRefused(err) || errors.As(err, &unknown)
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) || refused == (what == "no symbol") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, ko := range [][]byte{nil, []byte("not a module")} {
		if r, err := examplePlan().linkModule(ko, nil); r != nil || err == nil {
			t.Errorf("%q is linked", ko)
		}
	}
}
