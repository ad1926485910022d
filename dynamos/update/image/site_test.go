// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// sitesFile has two branches on static keys, one of them to where cold text
// lies, and calls of ftrace.
const sitesFile = `
extern __attribute__((cold)) int other_call(const char *text, int n);
extern int other_count, other_key[4];
#define KEY(yes) asm goto("1: jmp %l[" #yes "]\n.pushsection __jump_table, \"aw\"\n.balign 8\n" \
	".long 1b - ., %l[" #yes "] - .\n.quad other_key - .\n.popsection" : : : : yes)
static int limit = 7;
int near(int n)
{
	KEY(yes);
	return n + other_count + limit;
yes:
	return n * 5;
}
int far(int n)
{
	KEY(yes);
	return n - other_count;
yes:
	return other_call("far", n) + other_count;
}
void tune(int n) { limit = n; }
`

const (
	nop2 = "\x66\x90"
	nop5 = "\x0f\x1f\x44\x00\x00"
)

// traced makes calls of ftrace at the beginning of each function.
var traced = []string{"-pg", "-mfentry"}

// makeSites links a kernel image of that file, and compiles the file again.
func makeSites(t *testing.T) (*Image, []byte) {
	t.Helper()
	im := linkImage(t, otherFile+"\nasm(\".globl __fentry__\\n__fentry__: ret\");\n", sitesFile, traced...)
	return im, rebuildObject(t, sitesFile, traced...)
}

// patchImage writes into an image, until the end of the test.
func patchImage(t *testing.T, im *Image, addr uint64, text string) {
	t.Helper()
	for i, p := range im.parts {
		if addr >= p.start && addr+uint64(len(text)) <= p.start+uint64(len(p.data)) {
			old := p.data
			im.parts[i].data = slices.Clone(old)
			copy(im.parts[i].data[addr-p.start:], text)
			t.Cleanup(func() { im.parts[i].data = old })
			return
		}
	}
	t.Fatalf("%#x lies outside of the image", addr)
}

// findBranch returns the address of a function's branch on a static key.
func findBranch(t *testing.T, im *Image, object []byte, function string) uint64 {
	t.Helper()
	o, err := readObject(object)
	if err != nil {
		t.Fatal(err)
	}
	for n, list := range o.jumps {
		for _, at := range list {
			if name, offset := o.symbolAt(n, at); name == function {
				return im.uniqueAddr(function) + offset
			}
		}
	}
	t.Fatalf("%s has no branch on a static key", function)
	return 0
}

// Bytes may differ only where the kernel itself writes, and only as it does.
func TestGateComparesSitesThatTheKernelPatches(t *testing.T) {
	im, object := makeSites(t)
	if _, err := im.Gate("file.c", object); err != nil {
		t.Fatal(err)
	}
	near, far := findBranch(t, im, object, "near"), findBranch(t, im, object, "far")
	if text, _ := im.Bytes(near, 1); text[0] != 0xeb {
		t.Fatalf("the near branch is %x", text)
	}
	if text, _ := im.Bytes(far, 1); text[0] != 0xe9 {
		t.Fatalf("the far branch is %x", text)
	}
	for _, c := range []struct {
		name    string
		at      uint64
		text    string
		refused string // empty: taken
	}{
		{"a near branch that objtool made a no-op", near, nop2, ""},
		{"a near branch to another place", near, "\xeb\x01", "near+"},
		{"another instruction at a near branch", near, "\x90\x90", "near+"},
		{"half a no-op at a near branch", near, "\x66", "near+"},
		{"a far branch that objtool made a no-op", far, nop5, ""},
		{"another instruction at a far branch", far, "\x0f\x1f\x44\x00\x01", "far"},
		{"a far branch that is a call", far, "\xe8", "far"},
		{"a far branch to another place", far + 1, "\x10\x00\x00\x00", "far"},
		{"a call of ftrace that is a no-op", im.uniqueAddr("near"), nop5, ""},
		{"another no-op where ftrace is called", im.uniqueAddr("near"), "\x0f\x1f\x44\x00\x08", "no call of ftrace"},
		{"nothing where ftrace is called", im.uniqueAddr("near"), "\x90\x90\x90\x90\x90", "no call of ftrace"},
		{"a jump where ftrace is called", im.uniqueAddr("far"), "\xe9", "no call of ftrace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			patchImage(t, im, c.at, c.text)
			_, err := im.Gate("file.c", object)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
}

// What is no jump in the source is none that objtool would replace.
func TestGateAcceptsOnlyJumpsAsStaticBranches(t *testing.T) {
	im, object := makeSites(t)
	patchImage(t, im, findBranch(t, im, object, "near"), nop2)
	const call = "\xe8\x00\x00\x00\x00"
	changed := bytes.Replace(object, []byte(call+"\xeb"), []byte(call+"\x74"), 1)
	if bytes.Equal(changed, object) {
		t.Fatal("near does not begin with its branch")
	}
	_, err := im.Gate("file.c", changed)
	if err == nil || !strings.Contains(err.Error(), "near+") {
		t.Errorf("got %v", err)
	}
}

// findReference finds where a function of the image refers to an address, counted
// from the end of four bytes there.
func findReference(t *testing.T, im *Image, function string, to uint64) uint64 {
	t.Helper()
	from := im.uniqueAddr(function)
	text, _ := im.bytesFrom(from)
	for i := 0; i+4 <= min(len(text), 64); i++ {
		if uint64(int64(int32(binary.LittleEndian.Uint32(text[i:]))))+from+uint64(i)+4 == to {
			return from + uint64(i)
		}
	}
	t.Fatalf("%s refers nowhere to %#x", function, to)
	return 0
}

// A name of another file is one place, and the one that the kernel has it at.
func TestGateFollowsNamesOfOtherFiles(t *testing.T) {
	im, object := makeSites(t)
	at := findReference(t, im, "far", im.uniqueAddr("other_count"))
	leads := func(to uint64) string {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(to-at-4)))
	}
	t.Run("a name with two addresses", func(t *testing.T) {
		im.hideSymbol(t, "other_count") // so that the kernel's table says nothing
		patchImage(t, im, at, leads(im.uniqueAddr("other_limit")))
		_, err := im.Gate("file.c", object)
		if err == nil || !strings.Contains(err.Error(), "the image refers to two places where this refers to other_count") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address of another name", func(t *testing.T) {
		patchImage(t, im, at, leads(im.uniqueAddr("other_limit")))
		patchImage(t, im, findReference(t, im, "near", im.uniqueAddr("other_count")), string(binary.LittleEndian.AppendUint32(nil,
			uint32(im.uniqueAddr("other_limit")-findReference(t, im, "near", im.uniqueAddr("other_count"))-4))))
		_, err := im.Gate("file.c", object)
		if err == nil || !strings.Contains(err.Error(), "the image refers to other_limit, this to other_count") {
			t.Errorf("got %v", err)
		}
	})
}

// A variable that has another name in the image's place is another variable,
// though it begins with the same value.
func TestGateComparesNamesOfData(t *testing.T) {
	im, _ := makeSites(t)
	renamed := strings.NewReplacer("limit = 7", "other_limit = 7", "+ limit", "+ other_limit", "{ limit = n", "{ other_limit = n").Replace(sitesFile)
	_, err := im.Gate("file.c", rebuildObject(t, renamed, traced...))
	if err == nil || !strings.Contains(err.Error(), "other_limit: the image has limit in its place") {
		t.Errorf("got %v", err)
	}
}

// hideSymbol removes a name from the table until the end of the test.
func (im *Image) hideSymbol(t *testing.T, name string) {
	list := im.byName[name]
	delete(im.byName, name)
	t.Cleanup(func() { im.byName[name] = list })
}
