// SPDX-License-Identifier: MIT

package update

import (
	"context"
	"io"

	"skep/dynamos/update/pack"
)

// PlanOf returns what builds a package once more, for another kernel: the same patch and
// what its author stated. The bytes depend on nothing else, so each operator can build them.
func PlanOf(p *pack.Package, kernel string, says io.Writer) Plan {
	plan := Plan{Name: p.Name, State: p.State, Patch: p.Patch, Kernels: []string{kernel}, States: map[string]Statement{}, Layouts: map[string]string{}, Says: says}
	if p.Class != p.Proposed {
		plan.Class, plan.Because = p.Class, p.Because
	}
	for _, k := range p.Kernels {
		for i := range k.Functions {
			f := &k.Functions[i]
			s := Statement{Object: f.Object, Ends: f.Ends, Bare: f.Bare, Group: p.Class == pack.Task && f.Size == 0}
			if s != (Statement{}) {
				plan.States[f.Name] = s
			}
		}
		for _, l := range k.Layouts {
			plan.Layouts[l.Name] = l.Because
		}
	}
	return plan
}

// Rebuild builds a package for another kernel by build, which is Build but for tests. It
// refuses a result of another class, because policies and operators rely on the class.
func Rebuild(ctx context.Context, p *pack.Package, kernel string, says io.Writer, build func(context.Context, Plan) (*pack.Package, error)) (*pack.Package, error) {
	out, err := build(ctx, PlanOf(p, kernel, says))
	if err != nil {
		return nil, err
	}
	if out.Class != p.Class {
		return nil, refusef("for Linux %s the change asks for class %s, and the package has class %s: build it from its patch, and state a class", kernel, out.Class, p.Class)
	}
	return out, nil
}
