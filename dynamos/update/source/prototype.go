// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"path/filepath"

	"skep/dynamos/update/image"
)

// Prototypes returns the types of the functions of an unpatched unit, which is compiled once
// more for this.
func (w *Work) Prototypes(ctx context.Context, unit string) (map[string]image.Prototype, error) {
	if list := w.declared[unit]; list != nil {
		return list, nil
	}
	alone := *w
	alone.Units, alone.Dir = []string{unit}, ""
	defer alone.Close()
	t, err := alone.copy(ctx)
	if err != nil {
		return nil, err
	}
	if err := alone.compile(ctx, t, "before", typeFlags, "-o", "prepare"); err != nil {
		return nil, fmt.Errorf("the unpatched source does not compile: %w", err)
	}
	text := filepath.Join(alone.Dir, "before", assemblyName(unit))
	if _, err := runOutput(ctx, alone.Dir, nil, t.Compiler, "-c", "-o", text+".o", text); err != nil {
		return nil, err
	}
	list, err := image.ReadDeclared(text + ".o")
	if err != nil {
		return nil, fmt.Errorf("%s: its types: %w", unit, err)
	}
	if w.declared == nil {
		w.declared = map[string]map[string]image.Prototype{}
	}
	w.declared[unit] = list
	return list, nil
}
