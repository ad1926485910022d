// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"io"
	"strings"
	"testing"

	"skep/dynamos/update/image"
)

// twins are functions, in files that are changed, of whose name the kernel's types (BTF) have
// one type. The kernel has two prepend, and of mm_init another one, void mm_init(void), only
// inlined in init/main.c.
var twins = []struct {
	spoilt
	name           string
	position, args int
	result, text   string
}{
	{spoilt{"the kernel's first prepend", "fs/d_path.c", "\tif (p->len < 0)\n", "\tif (p->len <= 0)\n", ""}, "prepend", 1, 3, "value",
		"bool prepend(struct prepend_buffer * p, const char * str, int namelen)"},
	{spoilt{"the kernel's second prepend", "security/apparmor/path.c", "\tif (buflen < 0)\n\t\treturn -ENAMETOOLONG;\n\t*buffer", "\tif (buflen <= 0)\n\t\treturn -ENAMETOOLONG;\n\t*buffer", ""}, "prepend", 2, 4, "int",
		"int prepend(char * * buffer, int buflen, const char * str, int namelen)"},
	{spoilt{"the kernel's only mm_init", "kernel/fork.c", "\tmm->map_count = 0;\n\tmm->locked_vm = 0;\n", "\tmm->map_count = 1;\n\tmm->locked_vm = 0;\n", ""}, "mm_init", 0, 3, "pointer",
		"struct mm_struct * mm_init(struct mm_struct * mm, struct task_struct * p, struct user_namespace * user_ns)"},
}

// checkTwins checks that each function is found by its place, and has the type that its own
// file gives it.
func checkTwins(t *testing.T, b *builder) {
	var list []spoilt
	var paths []string
	for _, twin := range twins {
		list, paths = append(list, twin.spoilt), append(paths, twin.path)
	}
	var err error
	if b.work, err = b.tree.Patch(t.Context(), makeSpoiltPatch(t.Context(), t, b.tree.Dir, list...)); err != nil {
		t.Fatal(err)
	}
	defer b.work.Close()
	if b.units, err = b.work.Assemble(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := b.work.Declare(t.Context(), paths...); err != nil {
		t.Fatal(err)
	}
	b.gates = map[string]*image.File{}
	var says strings.Builder
	b.plan.Says = &says
	for _, twin := range twins {
		gate, err := b.proveOriginal(t.Context(), twin.path)
		if err != nil {
			t.Fatal(err)
		}
		declared, err := b.work.Declared(t.Context(), twin.path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := b.describeFunction(twin.path, twin.name, gate, declared)
		if err != nil || f.Position != twin.position || f.Args != twin.args || f.Result != twin.result || f.Type != twin.text {
			t.Errorf("%s: %+v, %v", twin.what, f, err)
		}
		if n := (callees{b.image, declared}).arguments(twin.name); n != twin.args {
			t.Errorf("%s takes %d arguments", twin.what, n)
		}
		b.declared = map[string]*image.Declared{twin.path: declared}
		if p, err := b.typeOf(twin.name); err != nil || p.Text != twin.text {
			t.Errorf("%s: %+v, %v", twin.what, p, err)
		}
	}
	if want := "mm_init is " + twins[2].text + "; the kernel's types (BTF) have another function of that name, void mm_init()\n"; !strings.Contains(says.String(), want) {
		t.Errorf("the author is told %q, want %q", says.String(), want)
	}
	b.plan.Says = io.Discard
	if n := (callees{b.image, &image.Declared{}}).arguments("prepend"); n != -1 {
		t.Errorf("any prepend takes %d arguments", n)
	}
}
