// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
)

// Quick is how many files are compiled without a message; Most is the largest number.
const (
	Quick = 8
	Most  = 400
)

// perFile is what one file takes before and after, on an idle core.
const perFile = 5 * time.Second

// A Work is one patch on its way through the compiler.
type Work struct {
	Dir    string   // its own, next to the tree, because links do not leave a disk
	Files  []string // that the patch changes and that are compiled
	Units  []string // the sources to be compiled
	Module string   // that the files are of; empty: of the image
	Skips  []Skip   // what of the patch does not matter, or stays as it is
	Idle   []string // what differs and matters only while the kernel starts
	// Led tells whether calls of a function can be led to another version; nil:
	// of all.
	Led func(name string) bool

	tree     *Tree
	parts    []part
	old, new map[string]string          // text of the files
	moved    []Layout                   // what Layouts has found
	declared map[string]*image.Declared // by unit
}

// Patch analyses a patch and checks that it applies. Nothing is compiled yet. A
// patch that cannot be carried gives an *asm.Refusal.
func (t *Tree) Patch(ctx context.Context, text []byte) (*Work, error) {
	parts, err := parsePatch(t.addPrefixes(text))
	if err != nil {
		return nil, err
	}
	code, skips, err := sortParts(parts)
	if err != nil {
		return nil, err
	}
	if err := t.tryPatch(ctx, code); err != nil {
		return nil, err
	}
	w := &Work{Skips: skips, tree: t, parts: code, old: map[string]string{}, new: map[string]string{}, declared: map[string]*image.Declared{}}
	for _, p := range code {
		w.Files = append(w.Files, p.path)
		if err := w.read(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := w.findUnits(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// tryPatch applies the patch to nothing.
func (t *Tree) tryPatch(ctx context.Context, parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	_, err := runOutput(ctx, t.Dir, bytes.NewReader(join(parts)), "patch", "-p1", "--fuzz=0", "--dry-run", "-f")
	if err != nil && ctx.Err() == nil {
		if _, back := runOutput(ctx, t.Dir, bytes.NewReader(join(parts)), "patch", "-R", "-p1", "--fuzz=0", "--dry-run", "-f"); back == nil {
			if err := t.checkIncluded(parts); err != nil {
				return err
			}
			return &IncludedError{t.Kernel.Version}
		}
		return refusef("the patch does not fit the source of %s: make it for this version: %v", t.Kernel.Version, err)
	}
	return err
}

// An IncludedError: the source of a kernel contains each change of a patch already.
type IncludedError struct{ Version string }

func (e *IncludedError) Error() string {
	return fmt.Sprintf("included: the source of %s contains each change of the patch, so this kernel needs no such update", e.Version)
}

// read keeps a file's text before and after the patch.
func (w *Work) read(ctx context.Context, p part) error {
	old, err := os.ReadFile(filepath.Join(w.tree.Dir, p.path))
	if err != nil && !p.added {
		return err
	}
	new, err := runOutput(ctx, w.tree.Dir, bytes.NewReader(join([]part{p})), "patch", "-p1", "--fuzz=0", "-f", "-s", "-r", "-", "-o", "-")
	w.old[p.path], w.new[p.path] = string(old), string(new)
	return err
}

// Reasons lists changes that the assembly does not show and that prevent two versions from running at once.
func (w *Work) Reasons() []string {
	var why []string
	for _, l := range w.moved {
		why = append(why, fmt.Sprintf("%s: %s has another layout (%s), and what is there keeps the old one", l.File, l.Name, l.What))
	}
	for _, f := range w.Files {
		why = append(why, changedParams(f, w.old[f], w.new[f])...)
	}
	return why
}

func join(parts []part) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		b.Write(p.text)
		if !bytes.HasSuffix(p.text, []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// findUnits finds the sources that have to be compiled: those that the patch
// changes, and those that include what it changes.
func (w *Work) findUnits(ctx context.Context) error {
	image, err := w.tree.imageSources()
	if err != nil {
		return err
	}
	included, own := map[string]bool{}, map[string]bool{}
	for _, p := range w.parts {
		if image[p.path] {
			own[p.path] = true
			continue
		}
		module, ok, err := w.tree.moduleOf(ctx, p.path)
		var failed *toolError
		switch {
		case err != nil && !errors.As(err, &failed):
			return err
		case !ok:
			if err := w.checkElsewhere(ctx, p, failed); err != nil {
				return err
			}
			included[p.path] = true
		case module == "":
			return refuseAt(p, "this file is part of several modules, and an update changes one: load new modules, or leave it out of the patch")
		case w.Module != "" && w.Module != module:
			return refuseAt(p, fmt.Sprintf("this file is part of the module %s, and another one of the patch of %s: make an update of each", module, w.Module))
		default:
			w.Module, own[p.path] = module, true
		}
	}
	if err := w.addUsers(ctx, image, included, own); err != nil {
		return err
	}
	for u := range own {
		w.Units = append(w.Units, u)
	}
	slices.Sort(w.Units)
	return nil
}

func refuseAt(p part, reason string) error {
	return &asm.Refusal{Path: p.path, Line: firstLine(p), Reason: reason}
}

// Estimate is how long compiling takes on an idle computer.
func (w *Work) Estimate() time.Duration {
	return 10*time.Second + time.Duration(len(w.Units))*perFile/2
}

// Line finds where a patched file speaks of a symbol: on a line that the patch
// changes, else anywhere; 0 if nowhere.
func (w *Work) Line(file, symbol string) int {
	text, err := os.ReadFile(filepath.Join(w.Dir, "tree", file))
	if err != nil {
		return 0
	}
	name, _, _ := strings.Cut(symbol, ".")
	lines := strings.Split(string(text), "\n")
	for _, p := range w.parts {
		for _, n := range p.changed {
			if p.path == file && n > 0 && n <= len(lines) && hasWord(lines[n-1], name) {
				return n
			}
		}
	}
	for i, l := range lines {
		if hasWord(l, name) && l != "" && !strings.ContainsAny(l[:1], " \t*/#") {
			return i + 1
		}
	}
	return 0
}

func hasWord(line, word string) bool {
	return eachWord(line, func(w string) bool { return w == word })
}

// Assemble compiles every unit before and after the patch.
func (w *Work) Assemble(ctx context.Context, says io.Writer) ([]Unit, error) {
	if len(w.Units) == 0 {
		return nil, nil
	}
	if len(w.Units) > Most {
		return nil, refusef("the patch changes what %d files of the image include, about %s of compiling; at most %d are possible: change the functions that need it instead of the header",
			len(w.Units), w.Estimate(), Most)
	}
	if err := w.compileFirst(ctx, says); err != nil {
		return nil, err
	}
	if len(w.Units) > Quick {
		fmt.Fprintf(says, "%d files to compile twice, about %s\n", len(w.Units), w.Estimate().Round(time.Second))
	}
	copied, err := w.copy(ctx)
	if err != nil {
		return nil, err
	}
	laid, err := readLaid(copied.Dir)
	if err != nil {
		return nil, err
	}
	if err := w.compileRound(ctx, copied, "before", says, "prepare"); err != nil {
		return nil, fmt.Errorf("the unpatched source does not compile: %w", err)
	}
	if len(w.Units) <= Quick { // of more, few change
		if err := w.declareIn(ctx, copied); err != nil {
			return nil, err
		}
	}
	if err := w.applyPatch(ctx, copied.Dir); err != nil {
		return nil, err
	}
	if err := w.compileAfter(ctx, copied, says); err != nil {
		return nil, &CompileError{err}
	}
	now, err := readLaid(copied.Dir)
	if err != nil {
		return nil, err
	}
	if laid != now {
		return nil, &asm.Refusal{Path: w.Files[0], Reason: "the patch changes how data is laid out that the kernel's hand-written assembly uses"}
	}
	return w.collect(ctx, copied)
}

// Originals returns a work of files of the image that no patch changes, compiled as
// they are: their units have no After.
func (t *Tree) Originals(ctx context.Context, files []string, says io.Writer) (*Work, []Unit, error) {
	image, err := t.imageSources()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if !image[f] {
			return nil, nil, refusef("%s is not a source of the kernel's image", f)
		}
	}
	w := &Work{Files: files, Units: files, tree: t}
	copied, err := w.copy(ctx)
	if err == nil {
		err = w.compileRound(ctx, copied, "before", says, "prepare")
	}
	var units []Unit
	if err == nil {
		units, err = w.collect(ctx, copied)
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, units, nil
}

func (w *Work) applyPatch(ctx context.Context, dir string) error {
	_, err := runOutput(ctx, dir, bytes.NewReader(join(w.parts)), "patch", "-p1", "--fuzz=0", "-f", "-s", "--no-backup-if-mismatch")
	return err
}

// compileFirst compiles the patch's own files alone where many others include what it
// changes: if it is refused for one of them, that is soon known.
func (w *Work) compileFirst(ctx context.Context, says io.Writer) error {
	own := slices.DeleteFunc(slices.Clone(w.Units), func(u string) bool { return !slices.Contains(w.Files, u) })
	if len(w.Units) <= Quick || len(own) == 0 || len(own) == len(w.Units) {
		return nil
	}
	alone := *w
	alone.Units, alone.Dir = own, ""
	defer alone.Close()
	units, err := alone.Assemble(ctx, says)
	if err == nil {
		_, err = alone.Changes(units, io.Discard)
	}
	return err
}

// A CompileError has the compiler's messages about the patched source.
type CompileError struct{ Says error }

func (e *CompileError) Error() string {
	return "the patched source does not compile: " + e.Says.Error()
}

// Unwrap returns what ended the compiler.
func (e *CompileError) Unwrap() error { return e.Says }

// FullText is all that it says.
func (e *CompileError) FullText() string {
	var tool *toolError
	if errors.As(e.Says, &tool) {
		return tool.text
	}
	return e.Says.Error()
}

// readLaid reads the headers that make writes from the layout of structures.
func readLaid(dir string) (string, error) {
	var all strings.Builder
	for _, name := range []string{"bounds.h", "asm-offsets.h"} {
		text, err := os.ReadFile(filepath.Join(dir, "include", "generated", name))
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

func assemblyName(unit string) string { return strings.TrimSuffix(unit, ".c") + ".s" }

// fixedTargets are targets that a patch cannot change: make would build tools anew,
// because their folder has another name. Headers may change what make derives
// from the layout of structures; sources do not.
func (w *Work) fixedTargets() []string {
	for _, f := range w.Files {
		if path.Ext(f) == ".h" {
			return []string{"tools/objtool", "tools/bpf/resolve_btfids"}
		}
	}
	return []string{"prepare"}
}

// compileAfter compiles the patched units. make is asked if the patch changes a header, from
// which it may derive others, and if a unit does not compile, for what it says.
func (w *Work) compileAfter(ctx context.Context, t *Tree, says io.Writer) error {
	if w.changesUnitsOnly() {
		w.sayRound(says, "after")
		if w.recompile(ctx, t, "after", roundFlags) {
			return w.moveDumps(t, "after")
		}
		says = io.Discard
	}
	return w.compileRound(ctx, t, "after", says, w.fixedTargets()...)
}

func (w *Work) sayRound(says io.Writer, name string) {
	fmt.Fprintf(says, "compiling %s the patch: %s\n", name, strings.Join(w.Units[:min(len(w.Units), Quick)], " "))
}

// compileRound compiles all units and moves their assembly to a folder, and beside it
// what package rely reads of them.
func (w *Work) compileRound(ctx context.Context, t *Tree, name string, says io.Writer, settled ...string) error {
	w.sayRound(says, name)
	args := []string{roundFlags}
	for _, s := range settled {
		args = append(args, "-o", s)
	}
	if err := w.compile(ctx, t, name, args...); err != nil {
		return err
	}
	return w.moveDumps(t, name)
}

// compile returns make these arguments and all units' assembly to make.
func (w *Work) compile(ctx context.Context, t *Tree, name string, args ...string) error {
	var targets []string
	for _, u := range w.Units {
		targets = append(targets, assemblyName(u))
	}
	if name == "after" {
		args = append([]string{"-k"}, args...) // all that is wrong at once
	}
	args = append(args, targets...)
	err := t.run(ctx, args...)
	if made := w.makeGenerated(ctx, t, err); made {
		err = t.run(ctx, args...)
	}
	if err != nil {
		return err
	}
	return w.moveAssembly(t, name)
}

// moveAssembly moves the units' assembly to a folder.
func (w *Work) moveAssembly(t *Tree, name string) error {
	for _, u := range w.Units {
		s := assemblyName(u)
		to := filepath.Join(w.Dir, name, s)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(t.Dir, s), to); err != nil {
			return err
		}
	}
	return nil
}

// makeGenerated has make write the headers that a folder's objects need and that it
// knows nothing of when it is asked for assembly. It tells whether that was the
// matter.
func (w *Work) makeGenerated(ctx context.Context, t *Tree, failed error) bool {
	var tool *toolError
	if !errors.As(failed, &tool) || !strings.Contains(tool.text, "No such file or directory") {
		return false
	}
	folders := map[string]string{}
	for _, u := range w.Units {
		if strings.Contains(tool.text, assemblyName(u)) {
			folders[path.Dir(u)] = strings.TrimSuffix(u, ".c") + ".o"
		}
	}
	return len(folders) > 0 && t.run(ctx, append([]string{"-o", "prepare"}, slices.Sorted(maps.Values(folders))...)...) == nil
}

// collect assembles what was compiled before the patch.
func (w *Work) collect(ctx context.Context, t *Tree) ([]Unit, error) {
	var out []Unit
	for _, path := range w.Units {
		u := Unit{Path: path, Before: filepath.Join(w.Dir, "before", assemblyName(path)), After: filepath.Join(w.Dir, "after", assemblyName(path))}
		var err error
		if u.Object, err = t.assembleUnit(ctx, w.Dir, "before", path); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// assembleUnit makes an object of the assembly that a round left in a folder of dir.
func (t *Tree) assembleUnit(ctx context.Context, dir, round, unit string) (object string, err error) {
	text := filepath.Join(dir, round, assemblyName(unit))
	object = strings.TrimSuffix(text, ".s") + ".o"
	_, err = runOutput(ctx, dir, nil, t.Compiler, "-c", "-o", object, text)
	return object, err
}

// Change compares a unit's two texts. A change that cannot be carried gives an
// *asm.Refusal with its line.
func (w *Work) Change(u Unit) (*asm.Change, error) {
	before, after, err := u.parse()
	if err != nil {
		return nil, err
	}
	changed := sync.OnceValue(func() func(string) bool { return w.changedFunctions(u.Path) })
	kept := func(name string) bool { return !changed()(name) }
	c, err := asm.View{Kept: kept, Led: w.Led}.Compare(before, after)
	if err != nil { // of functions that need not change, perhaps
		c, err = asm.View{Written: changed(), Led: w.Led}.Compare(before, after)
	}
	return c, w.addLine(err)
}

// addLine gives a refusal its line.
func (w *Work) addLine(err error) error {
	var r *asm.Refusal
	if errors.As(err, &r) && r.Line == 0 {
		r.Line = w.Line(r.Path, r.Symbol)
	}
	return err
}

func (u Unit) parse() (before, after *asm.Unit, err error) {
	var units [2]*asm.Unit
	for i, file := range []string{u.Before, u.After} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		if units[i], err = asm.Parse(u.Path, text); err != nil {
			return nil, nil, &asm.Refusal{Reason: err.Error()}
		}
	}
	return units[0], units[1], nil
}

// Close removes what Assemble has made.
func (w *Work) Close() error {
	if w.Dir == "" {
		return nil
	}
	return os.RemoveAll(w.Dir)
}
