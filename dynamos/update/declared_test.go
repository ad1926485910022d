// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"strings"
	"testing"

	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/lab"
)

// openImage opens the image of the lab's first kernel.
func openImage(t *testing.T) *image.Image {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	k, err := lab.FindKernel(build, lab.Series()[0])
	if err != nil {
		t.Skip(err)
	}
	im, err := image.Open(k.Image())
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// copy_array of kernel/bpf/verifier.c is the kernel's only function of that name. Its types
// (BTF) have another one, which is only inlined in arch/x86/kernel/cpu/hypervisor.c.
var copyArray = image.Prototype{Args: 5, Result: pack.Pointer,
	Text: "void * copy_array(void * dst, const void * src, size_t n, size_t size, gfp_t flags)"}

const inlinedArray = "void copy_array(const void * src, void * target, unsigned int size)"

// The type of a changed function is that of its own file, and the author is told if the
// kernel's types differ.
func TestTypeOfTheFileItself(t *testing.T) {
	var says strings.Builder
	b := builder{image: openImage(t), plan: &Plan{Says: &says}}
	if p, err := b.image.Prototype("copy_array"); err != nil || p.Text != inlinedArray || b.image.CountFunctions("copy_array") != 1 {
		t.Fatalf("the kernel has another copy_array: %+v, %v", p, err)
	}
	read, err := b.image.Prototype("vfs_read")
	if err != nil {
		t.Fatal(err)
	}
	declared := &image.Declared{Own: map[string]image.Prototype{"copy_array": copyArray, "vfs_read": read, "unheard_of": read},
		Called: map[string]image.Prototype{"vfs_write": read}}
	if p, ok := b.prototypeOf("kernel/bpf/verifier.c", "copy_array", &image.Function{}, declared); !ok || p != copyArray {
		t.Errorf("%+v, %v", p, ok)
	}
	want := "kernel/bpf/verifier.c: copy_array is " + copyArray.Text + "; the kernel's types (BTF) have another function of that name, " + inlinedArray + "\n"
	if says.String() != want {
		t.Errorf("the author is told %q, want %q", says.String(), want)
	}
	for name, known := range map[string]bool{"vfs_read": true, "unheard_of": true, "vfs_write": false} {
		if _, ok := b.prototypeOf("x.c", name, &image.Function{}, declared); ok != known || says.String() != want {
			t.Errorf("%s: %v, and the author is told %q", name, ok, says.String())
		}
	}
}

// What is stated of an unchanged function goes by a changed file that calls it, or has it.
func TestTypeOfUnchangedFunction(t *testing.T) {
	b := builder{image: openImage(t)}
	own := map[string]*image.Declared{"a.c": {Own: map[string]image.Prototype{"copy_array": copyArray}}}
	has := map[string]*image.File{"a.c": {Functions: map[string]*image.Function{"copy_array": {}}}}
	for _, c := range []struct {
		what     string
		declared map[string]*image.Declared
		gates    map[string]*image.File
		want     string
	}{
		{"nobody tells of it", nil, nil, inlinedArray},
		{"a file calls it", map[string]*image.Declared{"a.c": {Called: map[string]image.Prototype{"copy_array": copyArray}}}, nil, copyArray.Text},
		{"a file has it", own, has, copyArray.Text},
		{"a file only inlines one of its name", own, map[string]*image.File{"a.c": {}}, inlinedArray},
		{"a file has none of its name", map[string]*image.Declared{"a.c": {}}, map[string]*image.File{"a.c": {}}, inlinedArray},
	} {
		b.declared, b.gates = c.declared, c.gates
		if p, err := b.typeOf("copy_array"); err != nil || p.Text != c.want {
			t.Errorf("%s: %+v, %v", c.what, p, err)
		}
	}
	if _, err := b.typeOf("no_such_function"); err == nil {
		t.Error("an unknown function has a type")
	}
}

// Several changed files may tell of one function: the one that has it is right, and callers
// that differ are refused, in whichever order they are read.
func TestTypeThatFilesDisagreeOn(t *testing.T) {
	other := image.Prototype{Text: "int copy_array(void)", Args: 0, Result: copyArray.Result}
	calls := func(p image.Prototype) *image.Declared {
		return &image.Declared{Called: map[string]image.Prototype{"copy_array": p}}
	}
	b := builder{image: &image.Image{}, gates: map[string]*image.File{"has.c": {Functions: map[string]*image.Function{"copy_array": {}}}}}
	for range 20 { // the order of a map is another each time
		b.declared = map[string]*image.Declared{"a.c": calls(other), "b.c": calls(copyArray)}
		want := "a.c calls it as int copy_array(void), and b.c as " + copyArray.Text + ": state nothing of it, but of its callers"
		if p, err := b.typeOf("copy_array"); err == nil || err.Error() != want {
			t.Fatalf("two callers: %+v, %v, want %q", p, err, want)
		}
		b.declared["has.c"] = &image.Declared{Own: map[string]image.Prototype{"copy_array": copyArray}}
		if p, err := b.typeOf("copy_array"); err != nil || p != copyArray {
			t.Fatalf("with the file that has it: %+v, %v", p, err)
		}
		b.declared = map[string]*image.Declared{"a.c": calls(copyArray), "b.c": calls(copyArray), "c.c": {}}
		if p, err := b.typeOf("copy_array"); err != nil || p != copyArray {
			t.Fatalf("two callers that agree: %+v, %v", p, err)
		}
	}
}

// What a callee takes is what the calling file says, else the kernel's types if there is one.
func TestWhatCalleesTake(t *testing.T) {
	im := openImage(t)
	variable := image.Prototype{Args: 1, Uncounted: "takes a variable number of arguments"}
	known := callees{im, &image.Declared{Own: map[string]image.Prototype{"copy_array": copyArray, "_printk": {Args: 2}, "wide": {Args: 7, Uncounted: "takes more arguments than the six in registers"}},
		Called: map[string]image.Prototype{"vfs_read": variable, "copy_array": {}}}}
	for name, want := range map[string]int{"copy_array": 5, "_printk": 2, "wide": -1, "vfs_read": -1, "vfs_write": 4, "prepend": -1, "vprintk": 2, "no_such_function": -1} {
		if n := known.arguments(name); n != want {
			t.Errorf("%s takes %d arguments, want %d", name, n, want)
		}
	}
	for name, want := range map[string]bool{"_printk": false, "wide": false, "vfs_read": true, "vfs_write": false, "seq_printf": true} {
		if known.variadic(name) != want {
			t.Errorf("%s is variadic: %v", name, !want)
		}
	}
	if n := (callees{im, &image.Declared{}}).arguments("_printk"); n != -1 {
		t.Errorf("what takes any number takes %d", n)
	}
}
