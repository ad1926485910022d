// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/lab"
)

// withDummy is a fetched kernel with a small module of its package.
func withDummy(t *testing.T, series string) (kernel, with *Image, ko []byte) {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	k, err := lab.FindKernel(build, series)
	if err != nil {
		t.Skip(err)
	}
	if kernel, err = Open(k.Image()); err != nil {
		t.Fatal(err)
	}
	file, err := lab.FindModule(k.ModuleDir(), "dummy")
	if err != nil {
		t.Fatal(err)
	}
	if ko, err = lab.ReadModule(file); err != nil {
		t.Fatal(err)
	}
	if with, err = kernel.WithModule("dummy", ko); err != nil {
		t.Fatal(err)
	}
	return kernel, with, ko
}

// A module of the distribution has a place in the image, and its functions what those of the
// image have; the kernel's own stay as they are.
func TestImageWithAModule(t *testing.T) {
	for _, series := range lab.Series() {
		t.Run(series, func(t *testing.T) {
			kernel, im, _ := withDummy(t, series)
			list := im.Named("dummy_xmit")
			if len(list) != 1 || !im.InModule(list[0].Addr) || len(kernel.Named("dummy_xmit")) != 0 || kernel.InModule(list[0].Addr) {
				t.Fatalf("%+v", list)
			}
			f, err := im.Function(list[0])
			if err != nil || !f.Traced || f.Init || f.Size <= 0 || f.Size > 1000 {
				t.Errorf("%+v, %v", f, err)
			}
			if f, err := im.Function(im.Named("dummy_init_module")[0]); err != nil || !f.Init {
				t.Errorf("%+v, %v", f, err)
			}
			if position, ok := im.Position("numdummies", im.Named("numdummies")[0].Addr); !ok || position != 0 {
				t.Errorf("a variable of the module: %d, %v", position, ok)
			}
			read := im.Named("vfs_read")
			if len(read) != 1 || im.InModule(read[0].Addr) || im.BuildID != kernel.BuildID || im.Module != "dummy" || len(im.ModuleID) != 40 || kernel.Module != "" {
				t.Errorf("%+v, %s, %s", read, im.Module, im.ModuleID)
			}
		})
	}
}

// The gate takes a module's own text, and none with a changed byte, call, text or variable.
func TestGateOfAModule(t *testing.T) {
	_, im, ko := withDummy(t, lab.Series()[0])
	f, err := im.Gate("drivers/net/dummy.c", ko)
	if err != nil || f.Functions["dummy_xmit"] == nil || !im.InModule(f.Symbols["numdummies"]) || f.Symbols["dev_lstats_read"] != im.Named("dev_lstats_read")[0].Addr {
		t.Fatalf("%+v, %v", f, err)
	}
	object, err := elf.NewFile(bytes.NewReader(ko))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := object.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, more uint64) uint64 {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
		return object.Sections[symbols[i].Section].Offset + symbols[i].Value + more
	}
	call := object.Section(".rela.text").Offset + 8 + 4 // the symbol of the first relocation that is no trace's
	for name, place := range map[string]uint64{"a byte of a function": at("dummy_xmit", 12), "another call": call, "a value": at("numdummies", 0)} {
		spoilt := bytes.Clone(ko)
		spoilt[place] ^= 1
		_, err := im.Gate("drivers/net/dummy.c", spoilt)
		var m *Mismatch
		if !errors.As(err, &m) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// emptyFile has a variable without a size, as a lock's class is where locks are not watched,
// and a place where objtool has taken a relocation back.
const emptyFile = `
struct nothing {};
static struct nothing limit;
extern int other_call(const void *, int);
__asm__(".pushsection .note.gnu.build-id, \"a\"\n.long 4, 20, 3\n.asciz \"GNU\"\n.skip 20, 7\n.popsection");
int use(int n)
{
	__asm__ volatile("777: nop\n.reloc 777b, R_X86_64_NONE, other_call");
	return other_call(&limit, n);
}
`

// A variable without a size has a place too, and a relocation of no type writes nothing.
func TestGateOfAModuleWithEmptyPlaces(t *testing.T) {
	kernel, _ := makeSites(t) // it has a `limit` of its own
	ko := compileText(t, t.TempDir(), "empty.ko", emptyFile, append(slices.Clone(flags), "-c")...)
	im, err := kernel.WithModule("empty", ko)
	if err != nil {
		t.Fatal(err)
	}
	compiled := strings.Replace(emptyFile, "\\n.reloc 777b, R_X86_64_NONE, other_call", "", 1)
	f, err := im.Gate("empty.c", rebuildObject(t, compiled))
	if err != nil || f.Functions["use"] == nil || !im.InModule(f.Symbols["limit"]) {
		t.Errorf("%+v, %v", f, err)
	}
}

const needingFile = `
__asm__(".pushsection .note.gnu.build-id, \"a\"\n.long 4, 20, 3\n.asciz \"GNU\"\n.skip 20, 7\n.popsection\n"
	".pushsection .modinfo, \"a\"\n.asciz \"name=needing\"\n.asciz \"depends=base,one-more\"\n.popsection");
extern int shared(int);
int use(int n) { return shared(n) + 1; }
`

const neededFile = `
#define EXPORT(name) __asm__(".pushsection __ksymtab,\"a\"\n__ksymtab_" #name ": .long " #name " - .\n.popsection")
int shared(int n) { return n; }
int own(int n) { return n + 1; }
int twice(int n) { return n + 2; }
EXPORT(shared);
EXPORT(twice);
__asm__(".text\n.pushsection .data\ntwice.0: .long 1\n.set twice_, twice.0\n.popsection");
`

// Modules that a module needs are loaded whenever it is, and tell what they export.
func TestModulesThatAModuleNeeds(t *testing.T) {
	kernel, _ := makeSites(t)
	im, err := kernel.WithModule("needing", compileText(t, t.TempDir(), "needing.ko", needingFile, append(slices.Clone(flags), "-c")...))
	if err != nil || !slices.Equal(im.Needs, []string{"base", "one_more"}) {
		t.Fatalf("needs %q, %v", im.Needs, err)
	}
	if im.Exporter("shared") != "" {
		t.Error("a module is known before it was read")
	}
	needed := compileText(t, t.TempDir(), "base.ko", neededFile, append(slices.Clone(flags), "-c")...)
	if err := im.AddNeeded("base", needed); err != nil {
		t.Fatal(err)
	}
	for symbol, module := range map[string]string{"shared": "base", "twice": "base", "own": "", "none": ""} {
		if got := im.Exporter(symbol); got != module {
			t.Errorf("%s is exported by %q, not %q", symbol, got, module)
		}
	}
	again := bytes.Replace(needed, []byte("\x00twice_\x00"), []byte("\x00twice\x00\x00"), 1)
	if im, err = kernel.WithModule("needing", compileText(t, t.TempDir(), "needing.ko", needingFile, append(slices.Clone(flags), "-c")...)); err != nil {
		t.Fatal(err)
	}
	if err := im.AddNeeded("base", again); err != nil || im.Exporter("twice") != "" || im.Exporter("shared") != "base" {
		t.Errorf("a name that a module has twice: %q, %v", im.Exporter("twice"), err)
	}
	if err := im.AddNeeded("base", needed[:len(needed)/2]); err == nil {
		t.Error("a part of a module is read")
	}
	if _, im, _ := withDummy(t, lab.Series()[0]); im.Needs != nil {
		t.Errorf("dummy needs %q", im.Needs)
	}
}

// What cannot be loaded as a module is refused.
func TestNoModule(t *testing.T) {
	kernel, _, ko := withDummy(t, lab.Series()[0])
	anonymous := bytes.Replace(ko, []byte(".note.gnu.build-id\x00"), []byte(".note.gnu.build-ix\x00"), 1)
	for name, c := range map[string]struct {
		ko   []byte
		want string
	}{"a text": {[]byte("module"), ""}, "a part of one": {ko[:len(ko)/2], ""}, "one without a build-id": {anonymous, "no build-id"}} {
		if _, err := kernel.WithModule("dummy", c.ko); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// linkTwins links a module of files in which one name stands for a variable each, in a section of
// its own.
func linkTwins(t *testing.T, sections ...string) *Image {
	t.Helper()
	dir := t.TempDir()
	link := []string{"ld", "-r", "-o", filepath.Join(dir, "twins.ko")}
	for n, section := range sections {
		text := fmt.Sprintf("static int twin __attribute__((section(%q))) = %d;\nint *get%d(void) { return &twin; }\n", section, n+1, n)
		if n == 0 {
			text += strings.Split(strings.Replace(needingFile, "depends=base,one-more", "depends=", 1), "extern")[0]
		}
		name := fmt.Sprintf("%d.o", n)
		compileText(t, dir, name, text, append(slices.Clone(flags), "-c")...)
		link = append(link, filepath.Join(dir, name))
	}
	runCommand(t, link...)
	ko, err := os.ReadFile(filepath.Join(dir, "twins.ko"))
	if err != nil {
		t.Fatal(err)
	}
	kernel, _ := makeSites(t)
	im, err := kernel.WithModule("twins", ko)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// Livepatch counts the symbols of a module by its table, and not by their addresses.
func TestPositionsInAModule(t *testing.T) {
	im := linkTwins(t, ".late.data", ".data")
	twins := im.Named("twin") // in the order of their addresses
	if len(twins) != 2 || im.Section(twins[0].Addr) != ".data" {
		t.Fatalf("%+v", twins)
	}
	for n, want := range []int{2, 1} {
		if got, ok := im.ModulePosition("twin", twins[n].Addr); !ok || got != want {
			t.Errorf("the one in %s is number %d, %v", im.Section(twins[n].Addr), got, ok)
		}
	}
	if got, ok := im.ModulePosition("get0", im.Named("get0")[0].Addr); !ok || got != 0 {
		t.Errorf("a name that is unique: %d, %v", got, ok)
	}
	for _, addr := range []uint64{0, twins[0].Addr + 1} {
		if got, ok := im.ModulePosition("twin", addr); ok {
			t.Errorf("%#x is number %d", addr, got)
		}
	}
	im = linkTwins(t, ".late.data", ".data", ".init.data")
	for _, s := range im.Named("twin") {
		if got, ok := im.ModulePosition("twin", s.Addr); ok {
			t.Errorf("with one that is freed, that in %s is number %d", im.Section(s.Addr), got)
		}
	}
}
