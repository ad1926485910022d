// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/module"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
	"skep/lab"
)

// A Plan says what is to be built.
type Plan struct {
	Name    string
	Patch   []byte
	Kernels []string // series, or versions of packages
	Class   string   // empty: the one that ProposeClass returns
	Because string   // why another class than the proposed one is right
	States  map[string]Statement
	Layouts map[string]string // by structure: why a changed layout does no harm
	State   string            // why it does no harm that existing objects were set up by other code
	Says    io.Writer
}

// Build makes a package. For each kernel it compiles the files that the patch
// affects, compares the unpatched code with the kernel's image, and makes a module
// of the functions that differ. It refuses a change that a module cannot contain,
// and names its line.
func Build(ctx context.Context, p Plan) (*pack.Package, error) {
	out := &pack.Package{Manifest: pack.Manifest{Revision: pack.Revision, Name: p.Name}, Patch: p.Patch, Modules: map[string][]byte{}}
	var included error
	for _, name := range p.Kernels {
		b := &builder{plan: &p, out: out, gates: map[string]*image.File{}, declared: map[string]*image.Declared{}}
		err := b.fetchTree(ctx, name)
		if err == nil {
			err = b.buildModule(ctx)
		}
		if Included(err) && len(p.Kernels) > 1 {
			b.logf("for Linux %s: %v", name, err)
			included = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("for Linux %s: %w", name, buildRefused(err))
		}
	}
	if len(out.Kernels) == 0 {
		return nil, included
	}
	return finishPackage(out, p.State)
}

// finishPackage stores the reason of --state, and refuses what no package can hold.
func finishPackage(out *pack.Package, reason string) (*pack.Package, error) {
	if err := stateReason(&out.Manifest, reason); err != nil {
		return nil, err
	}
	if err := pack.Write(io.Discard, out); err != nil {
		return nil, refusef("no package can be made of this change: %v", err)
	}
	return out, nil
}

// Included reports whether nothing was built because the kernel contains the change.
func Included(err error) bool {
	var included *source.IncludedError
	return errors.As(err, &included)
}

// CheckIncluded compares the sources of a kernel with the patch of a package. It returns the
// kernel's build-id and the version of its package if they contain each change, and refuses
// otherwise. Nothing is built.
func CheckIncluded(ctx context.Context, p *pack.Package, kernel string, says io.Writer) (buildID, version string, err error) {
	b := &builder{plan: &Plan{Says: says}}
	if err := b.fetchTree(ctx, kernel); err != nil {
		return "", "", err
	}
	work, err := b.tree.Patch(ctx, p.Patch)
	if work != nil {
		work.Close()
	}
	switch {
	case Included(err):
		return b.image.BuildID, b.tree.Kernel.Version, nil
	case err == nil:
		err = refusef("the source of %s lacks the change: build the package for it with 'skep update build PACKAGE --kernel %s'", b.tree.Kernel.Version, kernel)
	}
	return "", "", buildRefused(err)
}

// stateReason stores why it does no harm that existing objects lack something, and refuses
// a reason without need.
func stateReason(m *pack.Manifest, reason string) error {
	if reason != "" && !m.ReliesOnState() {
		return refusef("--state says why existing objects do no harm, and the patch relies on nothing that they lack: leave it out")
	}
	m.State = reason
	return nil
}

// buildRefused turns errors that the patch causes into a RefusedError; others remain.
func buildRefused(err error) error {
	var change *asm.Refusal
	var mismatch *image.Mismatch
	var compile *source.CompileError
	var unknown *module.UnknownError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.As(err, &change) || errors.As(err, &mismatch) || errors.As(err, &compile) || errors.As(err, &unknown) {
		return &RefusedError{err.Error(), err}
	}
	return err
}

// A builder makes the module for one kernel.
type builder struct {
	plan   *Plan
	out    *pack.Package
	image  *image.Image // with the module that the update changes, if any
	kernel *lab.Kernel  // of the image, with its modules
	tree   *source.Tree
	work   *source.Work

	units     []source.Unit
	gates     map[string]*image.File // by path
	declared  map[string]*image.Declared
	changes   []*asm.Change
	files     []module.File
	functions []module.Function
	notes     []string // for the operator, in addition to the reasons for the class
	held      []string // why its module stays loaded after it was applied
	layouts   []pack.Layout
	relies    []string // what existing objects lack
	uncounted []string // functions that only livepatch can lead, and why
}

func (b *builder) logf(format string, args ...any) { fmt.Fprintf(b.plan.Says, format+"\n", args...) }

// buildModule makes the module from the patch, the kernel's image and its source.
func (b *builder) buildModule(ctx context.Context) error {
	var err error
	if b.work, err = b.tree.Patch(ctx, b.plan.Patch); err != nil {
		return err
	}
	defer b.work.Close()
	if err := b.openModule(ctx); err != nil {
		return err
	}
	b.work.Led = func(name string) bool {
		proto, err := b.image.Prototype(name)
		return b.work.Module != "" || b.image.CountFunctions(name) > 1 || err == nil && proto.Uncounted == ""
	}
	for _, s := range b.work.Skips {
		b.logf("%s: left aside: %s", s.Path, s.Why)
	}
	layouts, err := b.work.Layouts(ctx, b.plan.Says)
	if err != nil {
		return err
	}
	if err := b.checkLayouts(ctx, layouts); err != nil {
		return err
	}
	units, err := b.work.Assemble(ctx, b.plan.Says)
	if err != nil {
		return err
	}
	changes, err := b.work.Changes(units, b.plan.Says)
	if err != nil {
		return err
	}
	for _, name := range b.work.Idle {
		b.logf("%s is not in force before a boot: it only matters while the kernel starts", name)
	}
	b.units = units
	if err := b.declare(ctx, changes); err != nil {
		return err
	}
	for i, u := range units {
		if changes[i] == nil {
			continue
		}
		if err := b.buildUnit(ctx, u, changes[i]); err != nil {
			return err
		}
	}
	switch {
	case len(b.functions) > 0:
	case len(b.work.Idle) > 0:
		return refusef("the patch only changes what matters while the kernel starts, as %s: it takes a boot", b.work.Idle[0])
	default:
		return refusef("the patch changes no code of the kernel's image")
	}
	hazards, err := b.work.Hazards(units, changes)
	if err != nil {
		return err
	}
	if err := b.checkState(hazards); err != nil {
		return err
	}
	if err := b.applyStatements(); err != nil {
		return err
	}
	if err := b.chooseClass(); err != nil {
		return err
	}
	if err := checkStatements(b.out.Class, b.functions); err != nil {
		return err
	}
	return b.packModule(ctx)
}

// CheckOriginals compares unpatched files with a kernel's image, as a build does with
// those that a patch changes. For each it calls tell with the number of functions that
// are equal, or with the difference.
func CheckOriginals(ctx context.Context, kernel string, files []string, says io.Writer, tell func(path string, equal int, err error)) error {
	b := &builder{plan: &Plan{Says: says}}
	if err := b.fetchTree(ctx, kernel); err != nil {
		return err
	}
	work, units, err := b.tree.Originals(ctx, files, says)
	if err != nil {
		return err
	}
	defer work.Close()
	for _, u := range units {
		f, err := b.gateUnit(ctx, u)
		var mismatch *image.Mismatch
		if err != nil && !errors.As(err, &mismatch) {
			return err
		}
		equal := 0
		if f != nil {
			equal = len(f.Functions)
		}
		tell(u.Path, equal, err)
	}
	return nil
}

// fetchTree fetches the kernel and its source unless they are in the cache.
func (b *builder) fetchTree(ctx context.Context, name string) error {
	cache, err := lab.CacheDir()
	if err != nil {
		return err
	}
	home, err := lab.BuildDir()
	if err != nil {
		home = cache // no source tree of Skep here
	}
	k, err := lab.FetchKernel(ctx, home, name, b.plan.Says)
	if err != nil {
		return err
	}
	if b.image, err = image.Open(k.Image()); err != nil {
		return err
	}
	b.kernel = k
	of, err := sourceOf(b.image, k)
	if err != nil {
		return err
	}
	b.tree, err = source.PrepareTree(ctx, cache, of, b.plan.Says)
	return err
}

// openModule adds the module that the patch changes to the image, from the kernel's
// package.
func (b *builder) openModule(ctx context.Context) error {
	if b.work.Module == "" {
		return nil
	}
	ko, err := b.readModule(ctx, b.work.Module)
	if err != nil {
		return err
	}
	if err := b.addModule(ko); err != nil {
		return err
	}
	for _, name := range b.image.Needs {
		if ko, err = b.readModule(ctx, name); err != nil {
			return err
		}
		if err := b.image.AddNeeded(name, ko); err != nil {
			return refusef("the module %s: %v", name, err)
		}
	}
	return nil
}

// addModule adds the module that the patch changes to the image.
func (b *builder) addModule(ko []byte) error {
	with, err := b.image.WithModule(b.work.Module, ko)
	if err != nil {
		return refusef("the module %s: %v", b.work.Module, err)
	}
	b.image = with
	return nil
}

// readModule returns a module of the kernel's package.
func (b *builder) readModule(ctx context.Context, name string) ([]byte, error) {
	file, err := lab.FetchModule(ctx, b.kernel, b.image.Version, name, b.plan.Says)
	if err != nil {
		return nil, err
	}
	return lab.ReadModule(file)
}

// sourceOf returns the source that an image was built from.
func sourceOf(im *image.Image, k *lab.Kernel) (source.Kernel, error) {
	if im.Version == "" {
		return source.Kernel{}, refusef("the image does not say of which package of Debian it is, so its source can't be found")
	}
	return source.Kernel{Version: im.Version, Config: k.Config(),
		Symvers: filepath.Join(k.Headers(), "Module.symvers"), Modules: filepath.Join(k.ModuleDir(), "modules.order"), Release: plainRelease(im.Release)}, nil
}

// plainRelease returns s if it looks like a release of a distribution, else "": the
// text becomes part of a command of make.
func plainRelease(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+~_-") != "" {
		return ""
	}
	return s
}

// buildUnit extracts the changed functions of one file.
func (b *builder) buildUnit(ctx context.Context, u source.Unit, c *asm.Change) error {
	for _, note := range c.Notes {
		b.logf("%s: %s", u.Path, note)
	}
	gate, err := b.proveOriginal(ctx, u.Path)
	if err != nil {
		return err
	}
	c.Sealed = func(name string) bool {
		f := gate.Functions[name]
		return f != nil && b.image.Sealed(f.Addr)
	}
	declared, err := b.work.Declared(ctx, u.Path)
	if err != nil {
		return err
	}
	b.declared[u.Path] = declared
	known := callees{b.image, declared}
	c.Variadic, c.Arguments = known.variadic, known.arguments
	c.Late = b.image.Module != ""
	e := c.Extract(fmt.Sprintf("%s_%d", b.plan.Name, len(b.files)))
	if err := b.checkPointers(u.Path, e, gate); err != nil {
		return err
	}
	for _, escape := range e.Escapes {
		b.logf("%s: held: %v", u.Path, escape)
		b.held = append(b.held, escape.String())
	}
	for _, f := range e.Functions {
		path, stands, types := u.Path, gate, declared
		if from := c.From[f.Name]; from != nil {
			path = from.Path
			if stands, err = b.proveOriginal(ctx, path); err != nil {
				return err
			}
			if types, err = b.work.Declared(ctx, path); err != nil {
				return err
			}
		}
		made, err := b.describeFunction(path, f.Name, stands, types)
		if err != nil {
			return err
		}
		b.functions = append(b.functions, module.NewFunction(made, f))
	}
	b.changes = append(b.changes, c)
	b.files = append(b.files, module.File{Extract: e, Gate: gate})
	return nil
}

// checkPointers refuses new pointers to functions of the kernel that fault when they
// are called through a pointer.
func (b *builder) checkPointers(path string, e *asm.Extract, gate *image.File) error {
	for _, name := range e.Pointed {
		addr, ok := gate.Symbols[name]
		if !ok {
			list := b.image.Named(name)
			if len(list) != 1 {
				continue // data, or module.BuildModule reports it
			}
			addr = list[0].Addr
		}
		if b.image.Sealed(addr) {
			return &asm.Refusal{Path: path, Symbol: name, Line: b.work.Line(path, name),
				Reason: "the new text takes the address of this function, which the kernel only lets be called by its name (IBT): call it from a new function, and take the address of that"}
		}
	}
	return nil
}

// proveOriginal returns the unpatched file after comparing it with the kernel's image.
func (b *builder) proveOriginal(ctx context.Context, path string) (*image.File, error) {
	if f := b.gates[path]; f != nil {
		return f, nil
	}
	i := slices.IndexFunc(b.units, func(u source.Unit) bool { return u.Path == path })
	f, err := b.gateUnit(ctx, b.units[i])
	if err == nil {
		b.gates[path] = f
	}
	return f, err
}

// gateUnit compares the unpatched file with the kernel's image.
func (b *builder) gateUnit(ctx context.Context, u source.Unit) (*image.File, error) {
	text, err := os.ReadFile(u.Before)
	if err != nil {
		return nil, err
	}
	folded := strings.TrimSuffix(u.Before, ".s") + ".folded"
	if err := os.WriteFile(folded+".s", image.FoldSections(text), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.tree.Compiler, "-c", "-o", folded+".o", folded+".s")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: the assembler: %w: %.500s", u.Path, err, bytes.TrimSpace(out))
	}
	object, err := os.ReadFile(folded + ".o")
	if err != nil {
		return nil, err
	}
	return b.image.Gate(u.Path, object)
}

// describeFunction returns the data that the kernel needs of a replaced function.
func (b *builder) describeFunction(path, name string, gate *image.File, declared *image.Declared) (pack.Function, error) {
	no := func(format string, args ...any) (pack.Function, error) {
		return pack.Function{}, &asm.Refusal{Path: path, Symbol: name, Line: b.work.Line(path, name), Reason: fmt.Sprintf(format, args...)}
	}
	f := gate.Functions[name]
	switch {
	case f == nil:
		return no("the image has another function of that name in its place")
	case f.Init:
		return no("it is freed after the kernel has booted (__init)")
	case !f.Traced:
		return no("no call of it can be led elsewhere (notrace): patch its callers")
	case !f.Returns:
		return no("it never returns, so its update could never drain: patch what it calls")
	}
	if by := b.image.Exit(f.Addr); by != nil {
		b.notes = append(b.notes, fmt.Sprintf("a task may end inside of %s, by %s: such a call is reported as lost", name, strings.Join(by, ", ")))
	}
	position, ok := b.image.Position(name, f.Addr)
	if !ok {
		return no("the kernel's table of symbols does not have it")
	}
	if b.image.InModule(f.Addr) && position != 0 {
		return no("the module %s has several functions of that name: livepatch could take another one", b.image.Module)
	}
	proto, ok := b.prototypeOf(path, name, f, declared)
	if !ok {
		return no("the compiler does not tell its type: it may have given it arguments of its own")
	}
	made := pack.Function{Symbol: pack.Symbol{Name: name, Position: position, Module: b.image.Module}, File: path, Type: proto.Text, Args: proto.Args,
		Result: proto.Result, OldSize: f.Size, Original: f.Digest}
	if proto.Uncounted != "" {
		b.uncounted = append(b.uncounted, fmt.Sprintf("%s: %s %s, so its calls cannot be counted, and all tasks must change over", path, name, proto.Uncounted))
		made.Args, made.Result, made.Uncounted = 0, pack.Value, true
	}
	return made, nil
}

// chooseClass chooses the update's class, which is the same for all kernels.
func (b *builder) chooseClass() error {
	class, why := asm.ProposeClass(b.changes, append(b.work.Reasons(), b.uncounted...)...)
	m := &b.out.Manifest
	if m.Proposed == "" || class == asm.Together {
		m.Proposed = string(class)
	}
	for _, r := range append(why, b.notes...) {
		if !slices.Contains(m.Reasons, r) {
			m.Reasons = append(m.Reasons, r)
		}
	}
	for _, f := range b.work.Files {
		if !slices.Contains(m.Files, f) {
			m.Files = append(m.Files, f)
		}
	}
	m.Class = m.Proposed
	if b.plan.Class == "" {
		return nil
	}
	if len(b.uncounted) > 0 && b.plan.Class != pack.Together {
		return refusef("class %s cannot be: %s", b.plan.Class, strings.Join(b.uncounted, "; "))
	}
	m.Class, m.Because = b.plan.Class, b.plan.Because
	if m.Class != m.Proposed && m.Because == "" {
		return refusef("the change asks for class %s (%s): say --because, or leave --class out", m.Proposed, strings.Join(why, "; "))
	}
	return nil
}

// noProgram are folders whose functions the scheduler, NMIs or BPF programs run through.
var noProgram = []string{"kernel/sched/", "kernel/bpf/", "kernel/rcu/", "kernel/locking/", "kernel/trace/", "kernel/events/", "arch/x86/entry/", "arch/x86/kernel/nmi"}

// refusesPrograms reports whether a policy must not ask a BPF program at the functions of a file.
func refusesPrograms(u source.Unit) bool {
	return slices.ContainsFunc(noProgram, func(folder string) bool { return strings.HasPrefix(u.Path, folder) })
}

// packModule makes the module and adds it to the package.
func (b *builder) packModule(ctx context.Context) error {
	made, err := module.BuildModule(ctx, &module.Plan{Name: b.out.Name, Class: b.out.Class, Image: b.image, Tree: b.tree.Dir,
		Compiler: b.tree.Compiler, Files: b.files, Functions: b.functions, Held: b.held, Relies: len(b.relies) > 0, NoProgram: slices.ContainsFunc(b.units, refusesPrograms)})
	if err != nil {
		return err
	}
	k := pack.Kernel{Module: b.image.Module, ModuleID: b.image.ModuleID, BuildID: b.image.BuildID, Release: b.image.Release, Version: b.image.Version,
		Functions: made.Functions, Imports: made.Imports, Layouts: b.layouts, Idle: b.work.Idle, Held: b.held, Relies: b.relies}
	for _, c := range b.changes {
		k.Data = append(k.Data, c.Data...)
	}
	b.out.Kernels = append(b.out.Kernels, k)
	b.out.Modules[k.BuildID] = made.Module
	return nil
}
