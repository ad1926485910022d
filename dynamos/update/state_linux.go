// SPDX-License-Identifier: MIT

package update

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/module"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/rely"
	"skep/dynamos/update/source"
)

// A Statement is what the author declares about a function, because the change does
// not show it. With class task or object the author may also name a function that the
// patch does not change; it then belongs to the update's functions.
type Statement struct {
	Object *int // class object: the number of the argument that is the object, from 0
	Ends   bool // a call frees the object
	Bare   bool // neither the function nor a caller holds a lock during the call
	Group  bool // class task: a task inside it is inside the update's functions
}

// checkLayouts refuses structures whose layout changes, because the kernel and its
// modules have objects of the old layout. The author may say why that does no harm.
func (b *builder) checkLayouts(ctx context.Context, list []source.Layout) error {
	left := maps.Clone(b.plan.Layouts)
	var unsaid []source.Layout
	for _, l := range list {
		because, stated := b.plan.Layouts[l.Name]
		if !stated {
			unsaid = append(unsaid, l)
			continue
		}
		b.layouts = append(b.layouts, pack.Layout{Name: l.Name, What: l.What, Was: l.Was, Is: l.Is, Because: because})
		delete(left, l.Name)
	}
	if len(unsaid) > 0 {
		return b.refuseLayout(ctx, unsaid)
	}
	if names := slices.Sorted(maps.Keys(left)); len(names) > 0 {
		return refusef("something is stated of the layout of %s, and the patch leaves that as it is", names[0])
	}
	return nil
}

// refuseLayout refuses the first structure of a list.
func (b *builder) refuseLayout(ctx context.Context, list []source.Layout) error {
	l := list[0]
	user, err := b.work.OfModules(ctx, l)
	if err != nil {
		return err
	}
	who := "what the kernel has of it stays as it was"
	if user != "" {
		who = "modules, such as that of " + user + ", know it as it was and keep it so"
	}
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(list)-1)
	}
	return &asm.Refusal{Path: l.File, Symbol: l.Name, Line: l.Line, Reason: fmt.Sprintf(
		"it has another layout (%s; %d bytes, was %d), and %s%s: leave its members where they are and have what is new in a structure of its own, or say why this is safe as --layout '%s=REASON'",
		l.What, l.Is, l.Was, who, more, l.Name)}
}

// checkState refuses a patch whose new code relies on what only new code sets up, or whose
// old code so relies on old code after a revert. The author may say why that does no harm.
func (b *builder) checkState(hazards []rely.Hazard) error {
	for _, h := range hazards {
		b.relies = append(b.relies, h.String())
	}
	if len(hazards) == 0 || b.plan.State != "" {
		return nil
	}
	h, more := hazards[0], ""
	if len(hazards) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(hazards)-1)
	}
	way := "apply it before the first such object is made, and revert it when none is left"
	if b.work.Module != "" {
		way = fmt.Sprintf("apply it before the module %s is loaded, and unload that instead of reverting", b.work.Module)
	}
	return &asm.Refusal{Path: h.File, Line: h.Line, Reason: fmt.Sprintf("%v%s: say why this does no harm as --state 'REASON', such as '%s'", h, more, way)}
}

// applyStatements stores the author's statements about the changed functions, and adds
// the unchanged functions that the author names.
func (b *builder) applyStatements() error {
	left := maps.Clone(b.plan.States)
	for i := range b.functions {
		f := &b.functions[i].Function
		left[f.Name].applyTo(f)
		delete(left, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		f, err := describeUnchanged(b.image, name, b.typeOf)
		if err != nil {
			return err
		}
		left[name].applyTo(&f)
		b.functions = append(b.functions, module.NewFunction(f, asm.Function{}))
	}
	return nil
}

func (s Statement) applyTo(f *pack.Function) { f.Object, f.Ends, f.Bare = s.Object, s.Ends, s.Bare }

// describeUnchanged returns the data that the kernel needs of a function that does not
// change.
func describeUnchanged(im *image.Image, name string, typeOf func(string) (image.Prototype, error)) (pack.Function, error) {
	no := func(format string, args ...any) (pack.Function, error) {
		return pack.Function{}, refusef("something is stated of %s, which the patch does not change, and %s", name, fmt.Sprintf(format, args...))
	}
	list := im.Named(name)
	switch len(list) {
	case 0:
		return no("the kernel does not have it, or only inlined: name its callers")
	case 1:
	default:
		return no("the kernel has %d functions of that name: it takes one", len(list))
	}
	f, err := im.Function(list[0])
	if err != nil {
		return no("in the kernel's image, %v", err)
	}
	switch {
	case f.Init:
		return no("it is freed after the kernel has booted (__init)")
	case !f.Traced:
		return no("no call of it can be seen (notrace): name one of its callers")
	}
	proto, err := typeOf(name)
	if err != nil {
		return no("%v", err)
	}
	if proto.Uncounted != "" {
		return no("it %s, so no call of it can be seen: name one of its callers", proto.Uncounted)
	}
	return pack.Function{Symbol: pack.Symbol{Name: name}, Type: proto.Text, Args: proto.Args, Result: proto.Result,
		OldSize: f.Size, Original: f.Digest}, nil
}

// checkStatements refuses statements that the class does not use, and reports those
// that it needs.
func checkStatements(class string, functions []module.Function) error {
	ends := false
	for i := range functions {
		f := &functions[i].Function
		ends = ends || f.Ends
		switch {
		case functions[i].Unchanged() && class != pack.Task && class != pack.Object:
			return refusef("something is stated of %s, which the patch does not change: only an update of class task or object takes it along, and this is of class %s (--class, --because)", f.Name, class)
		case class == pack.Object && f.Object == nil:
			return refusef("class object: say which argument of %s is the object, as --object %s=0", f.Name, f.Name)
		case class != pack.Object && f.Object != nil:
			return refusef("an object is stated of %s, and the class is %s: say --class object and --because, or leave it out", f.Name, class)
		case f.Object != nil && *f.Object >= f.Args:
			return refusef("%s has no argument %d, counted from 0: it is %s", f.Name, *f.Object, f.Type)
		}
	}
	if class == pack.Object && !ends {
		return refusef("class object: name the function that ends the object's life, changed or not, as --ends FUNCTION=0; without it the update could never drain")
	}
	return nil
}
