// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"errors"
	"io"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/image"
	"skep/dynamos/update/module"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/rely"
	"skep/dynamos/update/source"
	"skep/internal/uapi"
)

func TestStatementsThatTheClassIgnores(t *testing.T) {
	arg, far := 0, 3
	changed := func(name string, object *int, ends bool) module.Function {
		return module.NewFunction(pack.Function{Symbol: pack.Symbol{Name: name}, Args: 1, Object: object, Ends: ends},
			asm.Function{Name: name, Version: "fix_0_0"})
	}
	as := func(name string, object *int, ends bool) module.Function {
		return module.NewFunction(pack.Function{Symbol: pack.Symbol{Name: name}, Args: 1, Object: object, Ends: ends}, asm.Function{})
	}
	for _, c := range []struct {
		class string
		list  []module.Function
		why   string
	}{
		{pack.Any, []module.Function{changed("f", nil, false)}, ""},
		{pack.Task, []module.Function{changed("f", nil, false), as("g", nil, false)}, ""},
		{pack.Object, []module.Function{changed("f", &arg, false), as("g", &arg, true)}, ""},
		{pack.Any, []module.Function{changed("f", nil, false), as("g", nil, false)}, "only an update of class task or object"},
		{pack.Together, []module.Function{changed("f", nil, false), as("g", nil, false)}, "only an update of class task or object"},
		{pack.Object, []module.Function{changed("f", nil, false), as("g", &arg, true)}, "--object f=0"},
		{pack.Object, []module.Function{changed("f", &arg, false)}, "--ends FUNCTION=0"},
		{pack.Object, []module.Function{changed("f", &far, true)}, "no argument 3"},
		{pack.Task, []module.Function{changed("f", &arg, false)}, "say --class object"},
	} {
		err := checkStatements(c.class, c.list)
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", c.class, err, c.why)
		}
	}
}

func TestReasonForAChangedLayout(t *testing.T) {
	list := []source.Layout{{Name: "struct box", File: "mm/box.c", Line: 3, What: "b is new", Was: 8, Is: 16},
		{Name: "struct lid", File: "mm/box.c", Line: 9, What: "c is new", Was: 4, Is: 8}}
	for name, c := range map[string]struct {
		list   []source.Layout
		stated []string
		why    string
	}{
		"no structure changed, no reason given":        {nil, nil, ""},
		"a reason for each changed structure":          {list, []string{"struct box", "struct lid"}, ""},
		"a reason for one of two changed structures":   {list, []string{"struct box"}, "mm/box.c:9: struct lid: it has another layout (c is new; 8 bytes, was 4)"},
		"no reason for two changed structures":         {list, nil, "what the kernel has of it stays as it was (and 1 more)"},
		"a reason for a structure that did not change": {list[:1], []string{"struct box", "struct lid"}, "stated of the layout of struct lid"},
	} {
		b := &builder{plan: &Plan{Layouts: map[string]string{}}, work: &source.Work{}}
		for _, s := range c.stated {
			b.plan.Layouts[s] = "each is made anew"
		}
		err := b.checkLayouts(t.Context(), c.list)
		if c.why != "" {
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", name, err, c.why)
			}
			continue
		}
		if err != nil || len(b.layouts) != len(c.list) {
			t.Errorf("%s: %v, package has %+v", name, err, b.layouts)
		}
		for i, l := range b.layouts {
			if want := (pack.Layout{Name: c.list[i].Name, What: c.list[i].What, Was: c.list[i].Was, Is: c.list[i].Is, Because: "each is made anew"}); l != want {
				t.Errorf("%s: package has %+v, want %+v", name, l, want)
			}
		}
	}
}

// A patch that relies on what existing objects lack is refused, until its author says why
// this does no harm.
func TestReasonForStateThatObjectsLack(t *testing.T) {
	list := []rely.Hazard{{Sets: "probe", Uses: "work", What: "struct dev.lock", File: "fs/x.c", Line: 7},
		{Sets: "probe", Uses: "leave", What: "struct dev.buf", Kind: rely.OnRevert, File: "fs/x.c", Line: 9}}
	for _, c := range []struct {
		list               []rely.Hazard
		module, state, why string
	}{
		{nil, "", "", ""},
		{list, "", "it is applied before the disk is there", ""},
		{list, "", "", "fs/x.c:7: work relies on struct dev.lock, which probe sets up only with the patch: what is there when the update is applied lacks it (and 1 more): " +
			"say why this does no harm as --state 'REASON', such as 'apply it before the first such object is made, and revert it when none is left'"},
		{list[1:], "xfs", "", "fs/x.c:9: after a revert leave relies on struct dev.buf, which probe sets up only without the patch: what the new code has set up lacks it: " +
			"say why this does no harm as --state 'REASON', such as 'apply it before the module xfs is loaded, and unload that instead of reverting'"},
	} {
		b := &builder{plan: &Plan{State: c.state}, work: &source.Work{Module: c.module}}
		err := b.checkState(c.list)
		if c.why == "" && err != nil || c.why != "" && (err == nil || err.Error() != c.why) {
			t.Errorf("%+v: %v, want %q", c.list, err, c.why)
		}
		m := &pack.Manifest{Kernels: []pack.Kernel{{Relies: b.relies}}}
		if err := stateReason(m, c.state); err != nil || m.State != c.state || len(b.relies) != len(c.list) {
			t.Errorf("%v, the package says %q of %q", err, m.State, b.relies)
		}
	}
	if err := stateReason(&pack.Manifest{Kernels: make([]pack.Kernel, 1)}, "none is there"); err == nil || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("a reason without need: %v", err)
	}
}

// Which functions can be led elsewhere, the kernel's image tells.
func TestFunctionsThatCannotBeOfAnUpdate(t *testing.T) {
	im := openImage(t)
	f, err := describeUnchanged(im, "security_file_free", im.Prototype)
	if err != nil || f.Args != 1 || f.Result != pack.Void || f.OldSize <= 0 || f.Size != 0 || len(f.Original) != 64 {
		t.Errorf("%+v, %v", f, err)
	}
	b := builder{image: im, work: &source.Work{}, plan: &Plan{Says: io.Discard}}
	for name, why := range map[string]string{
		"start_kernel": "__init", "do_user_addr_fault": "notrace): patch its callers",
		"pick_link": "another function of that name",
	} {
		gate := &image.File{Functions: map[string]*image.Function{}}
		for _, at := range im.Named(name) {
			if gate.Functions[name], err = im.Function(at); err != nil {
				t.Fatal(err)
			}
			gate.Functions[name].Returns = true
		}
		_, err := b.describeFunction("x.c", name, gate, &image.Declared{})
		var refusal *asm.Refusal
		if !errors.As(err, &refusal) || refusal.Symbol != name || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
	list := im.Named("devm_request_threaded_irq")
	seven, err := im.Function(list[0])
	if err != nil {
		t.Fatal(err)
	}
	seven.Returns = true
	made, err := b.describeFunction("x.c", "devm_request_threaded_irq", &image.File{Functions: map[string]*image.Function{"devm_request_threaded_irq": seven}},
		&image.Declared{Own: map[string]image.Prototype{"devm_request_threaded_irq": {Args: 7, Result: pack.Int, Uncounted: "takes more arguments than the six in registers"}}})
	if err != nil || !made.Uncounted || made.Args != 0 || made.Result != pack.Value || len(b.uncounted) != 1 ||
		!strings.Contains(b.uncounted[0], "takes more arguments than the six in registers") {
		t.Errorf("a function of seven arguments: %+v, %v, %q", made, err, b.uncounted)
	}
	list = im.Named("get_signal")
	ends, err := im.Function(list[0])
	if err != nil {
		t.Fatal(err)
	}
	ends.Returns = true
	if _, err := b.describeFunction("x.c", "get_signal", &image.File{Functions: map[string]*image.Function{"get_signal": ends}},
		&image.Declared{Own: map[string]image.Prototype{"get_signal": {}}}); err != nil ||
		len(b.notes) != 1 || !strings.Contains(b.notes[0], "inside of get_signal, by do_group_exit, do_exit") {
		t.Errorf("get_signal: %v, %q", err, b.notes)
	}
	for name, why := range map[string]string{
		"no_such_function": "or only inlined", "start_kernel": "__init", "do_user_addr_fault": "notrace",
		"devm_request_threaded_irq": "so no call of it can be seen",
	} {
		if _, err := describeUnchanged(im, name, im.Prototype); err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
}

func TestHealthText(t *testing.T) {
	for kernel, want := range map[uint32]uint32{0: 0, 101: 1, 150: 50} {
		if got := healthOf(&uapi.DynamosHealth{Latency: kernel}).Latency; got != want {
			t.Errorf("%d of the kernel's percent are told as %d more, not %d", kernel, got, want)
		}
	}
}
