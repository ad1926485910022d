// SPDX-License-Identifier: MIT

package update

import (
	"context"
	"maps"
	"slices"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
)

// declare has the compiler describe the functions of all changed files at once.
func (b *builder) declare(ctx context.Context, changes []*asm.Change) error {
	var changed []string
	for i, c := range changes {
		if c != nil {
			changed = append(changed, b.units[i].Path)
		}
	}
	return b.work.Declare(ctx, changed...)
}

// prototypeOf returns the type of a file's function, which the file itself tells. The kernel's
// types (BTF) are those of names: one may be that of a function of another file which is only
// inlined there.
func (b *builder) prototypeOf(path, name string, f *image.Function, declared *image.Declared) (p image.Prototype, ok bool) {
	if b.image.InModule(f.Addr) {
		return image.Prototype{Text: "of the module " + b.image.Module, Uncounted: "is a function of the module " + b.image.Module}, true
	}
	p, ok = declared.Own[name]
	if other, err := b.image.Prototype(name); ok && err == nil && !p.Alike(other) {
		b.logf("%s: %s is %s; the kernel's types (BTF) have another function of that name, %s", path, name, p.Text, other.Text)
	}
	return p, ok
}

// typeOf returns the type of a function of which the kernel has one: as the changed file tells
// it that has it, else as those do that call it, else as the kernel's types (BTF) do. Callers that
// differ are refused: one of them calls a function that was inlined, or is wrong about it.
func (b *builder) typeOf(name string) (image.Prototype, error) {
	paths := slices.Sorted(maps.Keys(b.declared))
	for _, path := range paths {
		if gate := b.gates[path]; gate != nil && gate.Functions[name] != nil {
			return b.declared[path].Own[name], nil
		}
	}
	var from string
	var said image.Prototype
	for _, path := range paths {
		p, ok := b.declared[path].Called[name]
		if ok && from != "" && !p.Alike(said) {
			return image.Prototype{}, refusef("%s calls it as %s, and %s as %s: state nothing of it, but of its callers", from, said.Text, path, p.Text)
		}
		if ok && from == "" {
			from, said = path, p
		}
	}
	if from != "" {
		return said, nil
	}
	return b.image.Prototype(name)
}

// callees are the functions that a file's text calls. The new text may call what the old one
// does not: the kernel's types (BTF) are asked for these.
type callees struct {
	image    *image.Image
	declared *image.Declared
}

// arguments is the number of registers that a function's arguments take, or -1.
func (c callees) arguments(name string) int {
	p, ok := c.declared.Of(name)
	if !ok && c.image.CountFunctions(name) == 1 {
		var err error
		p, err = c.image.Prototype(name)
		ok = err == nil
	}
	if !ok || p.Uncounted != "" {
		return -1
	}
	return p.Args
}

// variadic reports whether a function takes a format, or something else, and as many arguments
// as that says.
func (c callees) variadic(name string) bool {
	if p, ok := c.declared.Of(name); ok {
		return p.IsVariadic()
	}
	return c.image.Variadic(name)
}
