// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"slices"

	"skep/dynamos/update/image"
)

// Declare has the compiler describe the functions of unpatched units, unless Assemble did.
func (w *Work) Declare(ctx context.Context, units ...string) error {
	alone := *w
	alone.parts = nil
	alone.Units, alone.Dir = slices.DeleteFunc(slices.Clone(units), func(u string) bool { return w.declared[u] != nil }), ""
	if len(alone.Units) == 0 {
		return nil
	}
	defer alone.Close()
	t, err := alone.copy(ctx)
	if err != nil {
		return err
	}
	return alone.declareIn(ctx, t)
}

// declareIn compiles all units of an unpatched tree once more, and reads what the compiler
// tells of their functions.
func (w *Work) declareIn(ctx context.Context, t *Tree) error {
	if !w.recompile(ctx, t, "typed", typeFlags) {
		if err := w.compile(ctx, t, "typed", typeFlags, "-o", "prepare"); err != nil {
			return fmt.Errorf("the unpatched source does not compile: %w", err)
		}
	}
	for _, u := range w.Units {
		object, err := t.assembleUnit(ctx, w.Dir, "typed", u)
		if err != nil {
			return err
		}
		list, err := image.ReadDeclared(object)
		if err != nil {
			return fmt.Errorf("%s: its types: %w", u, err)
		}
		w.declared[u] = list
	}
	return nil
}

// Declared returns the functions that an unpatched unit defines and calls.
func (w *Work) Declared(ctx context.Context, unit string) (*image.Declared, error) {
	err := w.Declare(ctx, unit)
	return w.declared[unit], err
}
