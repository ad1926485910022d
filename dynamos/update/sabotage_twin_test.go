// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"io"
	"testing"

	"skep/dynamos/update/image"
)

// twins are two functions of one name, in files that are changed.
var twins = []struct {
	spoilt
	position, args int
	result, text   string
}{
	{spoilt{"the kernel's first prepend", "fs/d_path.c", "\tif (p->len < 0)\n", "\tif (p->len <= 0)\n", ""}, 1, 3, "value",
		"bool prepend(struct prepend_buffer * p, const char * str, int namelen)"},
	{spoilt{"the kernel's second prepend", "security/apparmor/path.c", "\tif (buflen < 0)\n\t\treturn -ENAMETOOLONG;\n\t*buffer", "\tif (buflen <= 0)\n\t\treturn -ENAMETOOLONG;\n\t*buffer", ""}, 2, 4, "int",
		"int prepend(char * * buffer, int buflen, const char * str, int namelen)"},
}

// checkTwins checks that each of two functions of a name is found by its place, and has the type
// that its own file gives it: the kernel's types are only those of names.
func checkTwins(t *testing.T, b *builder) {
	var list []spoilt
	for _, twin := range twins {
		list = append(list, twin.spoilt)
	}
	var err error
	if b.work, err = b.tree.Patch(t.Context(), makeSpoiltPatch(t.Context(), t, b.tree.Dir, list...)); err != nil {
		t.Fatal(err)
	}
	defer b.work.Close()
	if b.units, err = b.work.Assemble(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	b.gates = map[string]*image.File{}
	for _, twin := range twins {
		gate, err := b.proveOriginal(t.Context(), twin.path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := b.describeFunction(t.Context(), twin.path, "prepend", gate)
		if err != nil || f.Position != twin.position || f.Args != twin.args || f.Result != twin.result || f.Type != twin.text {
			t.Errorf("%s: %+v, %v", twin.what, f, err)
		}
		if n := b.argumentsOf("prepend"); n != -1 {
			t.Errorf("any prepend takes %d arguments", n)
		}
	}
}
