// SPDX-License-Identifier: MIT

package module

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/link"
	"skep/dynamos/update/pack"
	"skep/lab"
)

func buildDir(t *testing.T) string {
	t.Helper()
	dir, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func examplePlan() *Plan {
	arg := 1
	return &Plan{
		Name: "fix", Class: pack.Object, Image: &image.Image{BuildID: strings.Repeat("a", 40)},
		Functions: []Function{
			NewFunction(pack.Function{Symbol: pack.Symbol{Name: "f", Position: 2}, Args: 3, Result: pack.Pointer,
				OldSize: 96, Object: &arg, Ends: true}, asm.Function{Name: "f", Version: "fix_0_0", End: "fix_0_0_end"}),
			NewFunction(pack.Function{Symbol: pack.Symbol{Name: "g.isra.0"}, Result: pack.Void, OldSize: 16, Bare: true},
				asm.Function{Name: "g.isra.0", Version: "fix_0_1", End: "fix_0_1_end"}),
			NewFunction(pack.Function{Symbol: pack.Symbol{Name: "h"}, Args: 1, Result: pack.Void, OldSize: 32, Ends: true}, asm.Function{}),
		},
	}
}

func TestTableStatesWhatTheEngineAsks(t *testing.T) {
	glue, err := examplePlan().writeGlue()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(glue)), " ")
	for _, want := range []string{
		`{ .symbol = "f", .sympos = 2, .old_size = 96, .version = fix_0_0, .args = 3, .result = DYNAMOS_PTR, .object = 1, .ends = 1, .bare = 0, },`,
		`{ .symbol = "g.isra.0", .sympos = 0, .old_size = 16, .version = fix_0_1, .args = 0, .result = DYNAMOS_VOID, .object = DYNAMOS_NO_ARG, .ends = 0, .bare = 1, },`,
		`{ .symbol = "h", .sympos = 0, .old_size = 32, .args = 1, .result = DYNAMOS_VOID, .object = DYNAMOS_NO_ARG, .ends = 1, .bare = 0, },`,
		`.class = DYNAMOS_OBJECT, .build_id = "` + strings.Repeat("a", 40) + `",`,
		"functions[0].size = fix_0_0_size; functions[1].size = fix_0_1_size; return dynamos_update_add(&update);",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestTableStatesThatCallsAreNotCounted(t *testing.T) {
	p := examplePlan()
	p.Class, p.Functions[0].Uncounted, p.Functions[0].Args = pack.Together, true, 0
	glue, err := p.writeGlue()
	if err != nil || strings.Count(string(glue), ".args = DYNAMOS_UNCOUNTED,") != 1 || strings.Count(string(glue), ".args = 0,") != 1 {
		t.Errorf("%v: %s", err, glue)
	}
}

func TestTableStatesTheModuleThatChanges(t *testing.T) {
	p := examplePlan()
	if glue, err := p.writeGlue(); err != nil || strings.Contains(string(glue), ".object_id") {
		t.Errorf("%v: %s", err, glue)
	}
	p.Image.Module, p.Image.ModuleID = "dummy", strings.Repeat("b", 40)
	glue, err := p.writeGlue()
	if err != nil || !strings.Contains(string(glue), ".object = \"dummy\",\n\t.object_id = \""+p.Image.ModuleID+"\",") {
		t.Errorf("%v: %s", err, glue)
	}
}

// The reason why a module must stay is a text of C, whatever is in it.
func TestTableStatesWhyAModuleStays(t *testing.T) {
	p := examplePlan()
	if glue, err := p.writeGlue(); err != nil || strings.Contains(string(glue), ".held") || strings.Contains(string(glue), ".flags") {
		t.Errorf("%v, %s", err, glue)
	}
	p.Relies, p.NoProgram = true, true
	p.Held = []string{`the text "a\n"` + strings.Repeat("x", 300), "f"}
	glue, err := p.writeGlue()
	if err != nil || !strings.Contains(string(glue), `.held = "the text \"a\\n\"xxx`) || !strings.Contains(string(glue), `xxx, and 1 more",`) || !strings.Contains(string(glue), ".flags = DYNAMOS_RELIES | DYNAMOS_NO_PROGRAM,") {
		t.Errorf("%v, %s", err, glue)
	}
}

func TestTableRefusesInvalidNames(t *testing.T) {
	for name, spoil := range map[string]func(*Plan){
		"a quote in the update's name":            func(p *Plan) { p.Name = `x"` },
		"an unknown class":                        func(p *Plan) { p.Class = "some" },
		"no functions":                            func(p *Plan) { p.Functions = nil },
		"more functions than an update may have":  func(p *Plan) { p.Functions = slices.Repeat(p.Functions, 22)[:pack.MaxFunctions+1] },
		"a function's name that is no identifier": func(p *Plan) { p.Functions[0].Name = `f"; evil` },
		"a space in the name of a new version":    func(p *Plan) { p.Functions[0].asm.Version = "a b" },
		"an unknown type of result":               func(p *Plan) { p.Functions[0].Result = "u8" },
	} {
		p := examplePlan()
		spoil(p)
		if _, err := p.writeGlue(); !isRefused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The version of a symbol is a checksum of its declaration; the kernel refuses
// a module that has another one.
func TestEngineHasTheSymbolVersionsThatUpdatesAskFor(t *testing.T) {
	for _, series := range lab.Series() {
		path := filepath.Join(buildDir(t), "kmod", series, "dynamos/src/dynamos/kmod/Module.symvers")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Skipf("%v: run make kmod", err)
		}
		versions := func(text string) string {
			var list []string
			for line := range strings.Lines(text) {
				list = append(list, strings.Join(strings.Split(line, "\t")[:2], " "))
			}
			return strings.Join(list, ", ")
		}
		if got, want := versions(string(text)), versions(engineSymbols); got != want {
			t.Errorf("Linux %s: dynamos.ko has %s, updates ask for %s", series, got, want)
		}
	}
}

// findDuplicate finds a static function that a stock kernel has under one name at two
// places.
func findDuplicate(t *testing.T, im *image.Image) []image.Symbol {
	t.Helper()
	for _, s := range im.Symbols {
		if list := im.Named(s.Name); s.Type == 't' && len(list) == 2 && list[0].Addr != list[1].Addr && list[1].Type == 't' {
			return list
		}
	}
	t.Fatal("no name is declared twice")
	return nil
}

// openKernel opens the image of a kernel in build, if there is one.
func openKernel(t *testing.T) (*lab.Kernel, *image.Image) {
	t.Helper()
	k, err := lab.FindKernel(buildDir(t), lab.Series()[0])
	if err != nil {
		t.Skip(err)
	}
	im, err := image.Open(k.Image())
	if err != nil {
		t.Fatal(err)
	}
	return k, im
}

func TestSymbolsAreThoseThatTheOldTextUses(t *testing.T) {
	_, im := openKernel(t)
	both := findDuplicate(t, im)
	name := both[1].Name
	plan := func(files ...File) *Plan { return &Plan{Image: im, Files: files} }
	file := func(is string, addr uint64) File {
		return File{&asm.Extract{Path: "x.c", Locals: []asm.Local{{Name: "asked", Is: is}}},
			&image.File{Symbols: map[string]uint64{is: addr}}}
	}
	empty := File{&asm.Extract{Path: "y.c"}, &image.File{}}
	for _, c := range []struct {
		what string
		plan *Plan
		name string
		want link.Target
		why  string
	}{
		{what: "a static function of the file", plan: plan(empty, file(name, both[1].Addr)), name: "asked", want: link.Target{Name: name, Position: 2}},
		{what: "a static function of another file with the same name", plan: plan(file(name, both[0].Addr)), name: "asked", want: link.Target{Name: name, Position: 1}},
		{what: "a static function that the kernel does not have", plan: plan(file("other", 1)), name: "asked", why: "does not have"},
		{what: "one name for two different symbols", plan: plan(file(name, both[0].Addr), file(name, both[1].Addr)), name: "asked", why: "two updates"},
		{what: "a global name that is two static functions", plan: plan(empty), name: name, why: "does not have"},
		{what: "a global function that the file did not use before", plan: plan(empty), name: "vfs_read", want: link.Target{Name: "vfs_read"}},
		{what: "a function in .init.text", plan: plan(empty), name: "start_kernel", why: "__init"},
		{what: "a global function that the kernel does not have", plan: plan(empty), name: "no_such_symbol", why: "does not have"},
	} {
		got, err := c.plan.findTarget(c.name)
		if c.why == "" && (err != nil || got != c.want) || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, %v", c.what, got, err)
		}
	}
	local := plan(File{&asm.Extract{Path: "x.c", Locals: []asm.Local{{Name: "asked", Is: name}}}, &image.File{}})
	if _, err := local.findTarget("asked"); err == nil || !strings.Contains(err.Error(), "cannot be proved") {
		t.Errorf("a static that the old text does not use: %v", err)
	}
}

// readModule reads one of a fetched kernel.
func readModule(t *testing.T, k *lab.Kernel, name string) []byte {
	t.Helper()
	file, err := lab.FindModule(k.ModuleDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	ko, err := lab.ReadModule(file)
	if err != nil {
		t.Fatal(err)
	}
	return ko
}

// What a needed module exports is there whenever the module is; of others that is not known.
func TestSymbolsOfNeededModules(t *testing.T) {
	k, im := openKernel(t)
	var err error
	if im, err = im.WithModule("ext4", readModule(t, k, "ext4")); err != nil || !slices.Contains(im.Needs, "jbd2") {
		t.Fatalf("needs %q, %v", im.Needs, err)
	}
	const foreign = 0xffffffffb0000010 // where the image has what other modules export
	uses := func(name string) *Plan {
		return &Plan{Image: im, Files: []File{{&asm.Extract{Path: "x.c"}, &image.File{Symbols: map[string]uint64{name: foreign}}}}}
	}
	unused := &Plan{Image: im, Files: []File{{&asm.Extract{Path: "x.c"}, &image.File{}}}}
	if _, err := uses("jbd2_journal_stop").findTarget("jbd2_journal_stop"); err == nil || !strings.Contains(err.Error(), "of a module that ext4 does not need") {
		t.Errorf("a module that was not read: %v", err)
	}
	if err := im.AddNeeded("jbd2", readModule(t, k, "jbd2")); err != nil {
		t.Fatal(err)
	}
	for what, p := range map[string]*Plan{"used before": uses("jbd2_journal_stop"), "used for the first time": unused} {
		if got, err := p.findTarget("jbd2_journal_stop"); err != nil || got != (link.Target{Name: "jbd2_journal_stop", Module: "jbd2"}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	unused.Files[0].Extract.Locals = []asm.Local{{Name: "own", Is: "__this_module", Kernel: true}}
	if got, err := unused.findTarget("own"); err != nil || got != (link.Target{Name: "__this_module", Module: "ext4"}) {
		t.Errorf("THIS_MODULE: %+v, %v", got, err)
	}
	if _, err := unused.findTarget("nf_register_net_hook_none"); err == nil || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("a symbol of nobody: %v", err)
	}
}

func TestModuleNeedsATreeWithExports(t *testing.T) {
	p := examplePlan()
	p.Tree = t.TempDir()
	if result, err := BuildModule(t.Context(), p); result != nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "Module.symvers") {
		t.Errorf("%v, %v", result, err)
	}
}

func TestModuleNeedsAFolderOfItsOwn(t *testing.T) {
	p := examplePlan()
	p.Tree = t.TempDir()
	if err := os.WriteFile(filepath.Join(p.Tree, "Module.symvers"), []byte("0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(p.Tree, "missing")
	t.Setenv("TMPDIR", missing)
	if result, err := BuildModule(t.Context(), p); result != nil || err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v, %v", result, err)
	}
}

func TestExportsOmitNamespaces(t *testing.T) {
	text := "0x1\tplain\tvmlinux\tEXPORT_SYMBOL_GPL\t\n" +
		"0x1\tspaced\tvmlinux\tEXPORT_SYMBOL_GPL\tNS\n0x1\tforeign\tfs/x\tEXPORT_SYMBOL\t\n"
	path := filepath.Join(t.TempDir(), "Module.symvers")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readExports(path)
	if err != nil || !got["plain"] || got["spaced"] || got["foreign"] || !got["dynamos_update_add"] {
		t.Errorf("got %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readExports(path); err == nil {
		t.Error("a file without symbols is taken")
	}
}
