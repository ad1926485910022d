// SPDX-License-Identifier: MIT

// Package module makes the module of an update: from assembly with the new
// functions, a table of them, and the kernel's own build system, which adds
// all that a loader and an unwinder want to know. What the kernel does not
// export is then left to livepatch.
package module

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/link"
	"skep/dynamos/update/pack"
	"skep/include/skep"
)

// A Plan is an update for one kernel.
type Plan struct {
	Name      string // of the update and its module
	Class     string
	Image     *image.Image
	Tree      string // prepared source of this kernel, with Module.symvers
	Compiler  string // as gcc-12
	Files     []File
	Functions []Function
	Relies    bool     // on what objects of older code lack
	NoProgram bool     // a policy must not ask a BPF program at its functions
	Held      []string // why it must stay once it was in force
}

// A File is the new text of one of the kernel's files.
type File struct {
	Extract *asm.Extract
	Gate    *image.File
}

// A Function is what the package says of one, and where its new text is. Its
// size Make fills in.
type Function struct {
	pack.Function
	asm asm.Function
}

// NewFunction joins the two. One without a version stays as it is.
func NewFunction(f pack.Function, version asm.Function) Function { return Function{f, version} }

// Unchanged tells that calls of a function are seen, and not led elsewhere.
func (f *Function) Unchanged() bool { return f.asm.Version == "" }

// A Result is a module, with what a package's manifest says of it.
type Result struct {
	Module    []byte
	Functions []pack.Function
	Imports   []pack.Symbol
}

// BuildModule builds a plan's module. It writes to a folder of its own only.
func BuildModule(ctx context.Context, p *Plan) (*Result, error) {
	exports, err := readExports(filepath.Join(p.Tree, "Module.symvers"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "skep-update-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := p.write(dir); err != nil {
		return nil, err
	}
	if err := p.build(ctx, dir); err != nil {
		return nil, err
	}
	ko, err := os.ReadFile(filepath.Join(dir, p.Name+".ko"))
	if err != nil {
		return nil, err
	}
	return p.linkModule(ko, exports)
}

// write lays out what Kbuild reads.
func (p *Plan) write(dir string) error {
	glue, err := p.writeGlue()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"main.c":  glue,
		"symvers": []byte(engineSymbols),
	}
	objects := []string{"main.o"}
	for i, f := range p.Files {
		name := fmt.Sprintf("text%d", i)
		files[name+".S"] = append(bytes.Clone(f.Extract.Text), p.appendSizes(f.Extract)...)
		objects = append(objects, name+".o")
	}
	files["Kbuild"] = fmt.Appendf(nil, "obj-m := %s.o\n%s-y := %s\nccflags-y := -I$(src)/include\n", p.Name, p.Name, strings.Join(objects, " "))
	if err := fs.WalkDir(skep.Headers, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files["include/skep/"+path], err = skep.Headers.ReadFile(path)
		}
		return err
	}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "include/skep"), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// engineSymbols are the symbols of dynamos.ko with their versions, as modpost
// reads them. The header keeps these the same everywhere.
const engineSymbols = "0x591642bc\tdynamos_update_add\tdynamos\tEXPORT_SYMBOL_GPL\t\n" +
	"0x2c444ca9\tdynamos_update_remove\tdynamos\tEXPORT_SYMBOL_GPL\t\n"

// appendSizes puts the length of each function beside it, where C finds it: C cannot
// subtract addresses before the program is linked.
func (p *Plan) appendSizes(e *asm.Extract) []byte {
	var b []byte
	for _, f := range e.Functions {
		b = fmt.Appendf(b, "\t.section .rodata,\"a\",@progbits\n\t.balign 8\n\t.globl %s_size\n%s_size:\n\t.quad %s - %s\n",
			f.Version, f.Version, f.End, f.Version)
	}
	return b
}

// build runs the kernel's build system. modpost knows nothing of livepatch and
// may only warn of symbols that are not exported.
func (p *Plan) build(ctx context.Context, dir string) error {
	make := exec.CommandContext(ctx, "make", "-s", "-C", p.Tree, "M="+dir, "ARCH=x86_64",
		"CC="+p.Compiler, "HOSTCC=gcc", "KBUILD_MODPOST_WARN=1", "KBUILD_EXTRA_SYMBOLS="+filepath.Join(dir, "symvers"),
		"KAFLAGS=-g0", "KCFLAGS=-g0 -Werror -ffile-prefix-map="+dir+"/=", "modules")
	// Kbuild takes many variables as options, and each operator has to get the same bytes.
	make.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	make.WaitDelay = time.Second
	says, err := make.CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		text := strings.TrimSpace(strings.ReplaceAll(string(says), dir+"/", ""))
		return refusef("the kernel's build system does not take the new text: %v: %s", err, text[max(0, len(text)-1500):])
	}
	return err
}

// refusef is what no computer could make a module of.
func refusef(format string, args ...any) error {
	return &asm.Refusal{Reason: fmt.Sprintf(format, args...)}
}

// linkModule links the module and reads the sizes of its functions.
func (p *Plan) linkModule(ko []byte, exports map[string]bool) (*Result, error) {
	names, err := link.UndefinedSymbols(ko)
	if err != nil {
		return nil, err
	}
	targets := map[string]link.Target{}
	for _, name := range names {
		if exports[name] && !p.isLocal(name) {
			continue
		}
		t, err := p.findTarget(name)
		if err != nil {
			return nil, err
		}
		targets[name] = t
	}
	r := &Result{}
	if r.Module, err = link.RewriteSymbols(ko, targets, p.Image.Module); err != nil {
		return nil, refusef("linking with the kernel: %v", err)
	}
	for _, t := range link.SortTargets(targets) {
		r.Imports = append(r.Imports, pack.Symbol(t))
	}
	for _, f := range p.Functions {
		if f.Unchanged() {
			r.Functions = append(r.Functions, f.Function)
			continue
		}
		if f.Size, err = link.SymbolDistance(r.Module, f.asm.Version, f.asm.End); err != nil {
			return nil, refusef("linking with the kernel: %v", err)
		}
		r.Functions = append(r.Functions, f.Function)
	}
	return r, nil
}

func (p *Plan) isLocal(name string) bool {
	for _, f := range p.Files {
		for _, l := range f.Extract.Locals {
			if l.Name == name {
				return true
			}
		}
	}
	return false
}

// An UnknownError is a name of the new text that no symbol of the kernel can
// stand for.
type UnknownError struct{ reason string }

func (e *UnknownError) Error() string { return e.reason }

func unknownf(format string, args ...any) error {
	return &UnknownError{fmt.Sprintf(format, args...)}
}

// findTarget reports which of the kernel's symbols a name of the new text is. What the
// gate has proved counts: the address that the file's own old text uses.
func (p *Plan) findTarget(name string) (link.Target, error) {
	var found []link.Target
	kernels := ""
	for _, f := range p.Files {
		is, local := name, false
		for _, l := range f.Extract.Locals {
			if l.Name == name {
				is, local = l.Is, !l.Kernel
				if l.Kernel {
					kernels = is
				}
			}
		}
		addr, proved := f.Gate.Symbols[is]
		if p.Image.InOthers(addr) {
			if module := p.Image.Exporter(is); module != "" {
				return link.Target{Name: is, Module: module}, nil
			}
			return link.Target{}, unknownf("%s: the new text uses %s of a module that %s does not need, so it may not be loaded", f.Extract.Path, is, p.Image.Module)
		}
		if !proved {
			if local {
				return link.Target{}, unknownf("%s: the file's %s is used nowhere in the kernel's own text, so that its address cannot be proved", f.Extract.Path, is)
			}
			continue
		}
		if p.Image.Init(addr) {
			return link.Target{}, unknownf("%s: the new text uses %s, which is freed after the kernel has booted (__init)", f.Extract.Path, is)
		}
		position, ok := p.Image.Position(is, addr)
		if !ok {
			return link.Target{}, unknownf("%s: the kernel's table of symbols does not have the %s that its text uses", f.Extract.Path, is)
		}
		t, err := p.targetAt(is, addr, position)
		if err != nil {
			return t, err
		}
		found = append(found, t)
	}
	for _, t := range found {
		if t != found[0] {
			return t, unknownf("%s means one symbol in one of the files and another in another: make two updates of them", name)
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	if kernels != "" { // another file has it
		return p.findGlobal(kernels)
	}
	return p.findGlobal(name)
}

// findGlobal finds a symbol that the old text did not use.
func (p *Plan) findGlobal(name string) (link.Target, error) {
	var found []link.Target
	list := p.Image.Named(name)
	for _, s := range list {
		if !s.Global() {
			continue
		}
		if p.Image.Init(s.Addr) {
			return link.Target{}, unknownf("the new text uses %s, which is freed after the kernel has booted (__init)", name)
		}
		position, _ := p.Image.Position(name, s.Addr)
		t, err := p.targetAt(name, s.Addr, position)
		if err != nil {
			return t, err
		}
		found = append(found, t)
	}
	module := p.Image.Exporter(name)
	switch {
	case len(found) == 0 && module != "":
		return link.Target{Name: name, Module: module}, nil
	case len(found) == 0:
		return link.Target{}, unknownf("the new text uses %s, which the kernel does not have", name)
	case len(found) > 1:
		return link.Target{}, unknownf("the new text uses %s, of which the kernel has %d", name, len(found))
	}
	return found[0], nil
}

// targetAt is what livepatch finds a symbol by.
func (p *Plan) targetAt(name string, addr uint64, position int) (link.Target, error) {
	t := link.Target{Name: name, Position: position}
	if !p.Image.InModule(addr) {
		return t, nil
	}
	t.Module = p.Image.Module
	var ok bool
	if t.Position, ok = p.Image.ModulePosition(name, addr); !ok {
		return t, unknownf("the new text uses %s, of which the module %s has several, not all of which stay once it has started", name, t.Module)
	}
	return t, nil
}

// readExports reads what modules may use without help. Names in a namespace
// are left to livepatch, which asks for no import.
func readExports(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := map[string]bool{"dynamos_update_add": true, "dynamos_update_remove": true}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) >= 4 && f[2] == "vmlinux" && (len(f) == 4 || f[4] == "") {
			list[f[1]] = true
		}
	}
	if len(list) == 2 {
		return nil, errors.New(path + " names no symbols of a kernel")
	}
	return list, nil
}
