// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// btf writes types, from number 1 on, and their names.
type btf struct{ types, names []byte }

func (b *btf) add(name string, kind, vlen, size uint32, details ...uint32) {
	at := uint32(0)
	if name != "" {
		at = uint32(len(b.names))
		b.names = append(append(b.names, name...), 0)
	}
	for _, v := range append([]uint32{at, kind<<24 | vlen, size}, details...) {
		b.types = le.AppendUint32(b.types, v)
	}
}

func (b *btf) addString(name string) uint32 {
	b.names = append(append(b.names, name...), 0)
	return uint32(len(b.names) - 1 - len(name))
}

func (b *btf) encodeSection() []byte {
	out := []byte{0x9f, 0xeb, 1, 0}
	for _, v := range []int{24, 0, len(b.types), len(b.types), len(b.names)} {
		out = le.AppendUint32(out, uint32(v))
	}
	return slices.Concat(out, b.types, b.names)
}

// smallTypes has int sum(int, struct pair *, struct pair) and
// void tell(struct big). Its last type has parameters.
func smallTypes() []byte {
	const flagged = 0x80 // a structure with bit fields
	b := &btf{names: []byte{0}}
	b.add("int", kindInt, 0, 4, 1<<24|32)                                                         // 1
	b.add("pair", flagged|kindStruct, 2, 16, b.addString("a"), 1, 0, b.addString("b"), 1, 64)     // 2
	b.add("", kindPointer, 0, 2)                                                                  // 3
	b.add("big", kindStruct, 1, 24, b.addString("all"), 1, 0)                                     // 4
	b.add("sum", kindFunc, 0, 7)                                                                  // 5
	b.add("tell", kindFunc, 0, 8)                                                                 // 6
	b.add("", kindProto, 3, 1, b.addString("n"), 1, b.addString("to"), 3, b.addString("both"), 2) // 7
	b.add("", kindProto, 1, 0, b.addString("it"), 4)                                              // 8
	return b.encodeSection()
}

const (
	smallBanner  = `Linux version 6.1.0-9-amd64 (builder@debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld (GNU Binutils) 2.40) #1 SMP Debian 6.1.27-1 (2023-05-08)`
	smallBuildID = "\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00abcdefghijklmnopqrst"
)

// smallSymbols is a table with what an image's traced places lie between.
func smallSymbols() []Symbol {
	list := manySymbols()
	last := list[len(list)-1]
	return append(list[:len(list)-1], Symbol{"__start_mcount_loc", 'R', 0xffffffff81800000}, Symbol{"__stop_mcount_loc", 'R', 0xffffffff81800010}, last)
}

// linkVmlinux links an image of these sections.
func linkVmlinux(t *testing.T, notes, banner string, symbols []Symbol, types []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"notes": []byte(notes), "ro": kernelTable(symbols, true), "types": types} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compileText(t, dir, "in.o", fmt.Sprintf("\t.file \"x\"\n\t.text\n\tret\n\t.skip 0x1100\n\t.section .notes,\"a\"\n\t.incbin \"%[1]s/notes\"\n"+
		"\t.section .rodata\n\t.incbin \"%[1]s/ro\"\n\t.string \"%[2]s\\n\"\n\t.section .mcount,\"a\"\n\t.quad 0xffffffff81001000, 0xffffffff81001024\n"+
		"\t.section .BTF,\"a\"\n\t.incbin \"%[1]s/types\"\n", dir, banner), "-c")
	out := filepath.Join(dir, "vmlinux")
	runCommand(t, "ld", "-Ttext=0xffffffff81000000", "--section-start=.mcount=0xffffffff81800000", "-e", "0", "-o", out, filepath.Join(dir, "in.o"))
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestImageVersions(t *testing.T) {
	im, err := Read(linkVmlinux(t, smallBuildID, smallBanner, smallSymbols(), smallTypes()))
	if err != nil {
		t.Fatal(err)
	}
	if im.Release != "6.1.0-9-amd64" || im.Version != "6.1.27-1" || im.Compiler != "gcc-12 (Debian 12.2.0-14) 12.2.0" ||
		im.BuildID != fmt.Sprintf("%x", "abcdefghijklmnopqrst") {
		t.Errorf("release %q, version %q, compiler %q, build-id %q", im.Release, im.Version, im.Compiler, im.BuildID)
	}
	for addr, want := range map[uint64]uint64{0xffffffff81001000: 0xffffffff81001000, 0xffffffff81001020: 0xffffffff81001024, 0xffffffff81001010: 0} {
		if at, ok := im.Traced(addr); at != want || ok != (want != 0) {
			t.Errorf("%#x is traced at %#x, %v", addr, at, ok)
		}
	}
	for addr, traced := range map[uint64]bool{0xffffffff81001000: true, 0xffffffff81001010: false} {
		if f, err := im.Function(Symbol{"f", 'T', addr}); err != nil || f.Traced != traced {
			t.Errorf("%#x: %+v, %v", addr, f, err)
		}
	}
	want := Prototype{Text: "int sum(int n, struct pair * to, struct pair both)", Args: 4, Result: "int"}
	if p, err := im.Prototype("sum"); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := im.Prototype("tell"); err != nil || p.Uncounted != "takes a struct big in memory" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestFileAboveTheLimitIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(path, []byte("image"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := readFile(path, 5); err != nil || string(data) != "image" {
		t.Errorf("as many bytes as the limit: %q, %v", data, err)
	}
	if _, err := readFile(path, 4); err == nil || !strings.Contains(err.Error(), path+" has more than 4 bytes") {
		t.Errorf("one byte above the limit: %v", err)
	}
}

// Of several functions with one name each must fit.
func TestPrototypeOfAnyFunctionMayBeUnfit(t *testing.T) {
	b := &btf{names: []byte{0}}
	b.add("int", kindInt, 0, 4, 1<<24|32)                     // 1
	b.add("big", kindStruct, 1, 24, b.addString("all"), 1, 0) // 2
	b.add("first", kindFunc, 0, 7)                            // 3
	b.add("first", kindFunc, 0, 8)                            // 4
	b.add("last", kindFunc, 0, 8)                             // 5
	b.add("last", kindFunc, 0, 7)                             // 6
	b.add("", kindProto, 1, 1, b.addString("it"), 2)          // 7
	b.add("", kindProto, 1, 1, b.addString("n"), 1)           // 8
	im, err := Read(linkVmlinux(t, smallBuildID, smallBanner, smallSymbols(), b.encodeSection()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "last"} {
		if _, err := im.Prototype(name); err == nil || !strings.Contains(err.Error(), "several functions "+name+", of different types") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// movedText names another address than the section's as the text's beginning.
func movedText() []Symbol {
	list := smallSymbols()
	for i := range list {
		if list[i].Name == "_text" {
			list[i].Addr += 16
		}
	}
	return list
}

func TestImageThatLacksAPartIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		notes   string
		symbols []Symbol
		types   []byte
		why     string
	}{
		{"no build-id", "\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00GNU\x00", smallSymbols(), smallTypes(), "it has no build-id"},
		{"a note that ends in its name", "\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00", smallSymbols(), smallTypes(), "its notes are damaged"},
		{"a note that ends in its text", smallBuildID[:35], smallSymbols(), smallTypes(), "its notes are damaged"},
		{"no symbols", smallBuildID, nil, smallTypes(), "its table of symbols: "},
		{"symbols of another kernel", smallBuildID, movedText(), smallTypes(), "its table of symbols: its addresses are not those of the sections"},
		{"no traced functions", smallBuildID, manySymbols(), smallTypes(), "its table of traced functions: there is none"},
		{"no types", smallBuildID, smallSymbols(), []byte("none"), "its types (BTF): there are none"},
		{"types that break off", smallBuildID, smallSymbols(), cutTypes(8), "its types (BTF): type 8 is of an unknown kind"},
		{"a header of a type that breaks off", smallBuildID, smallSymbols(), cutTypes(12), "its types (BTF): they break off"},
	} {
		if _, err := Read(linkVmlinux(t, c.notes, smallBanner, c.symbols, c.types)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
}

// cutTypes says that the types end some bytes earlier.
func cutTypes(n uint32) []byte {
	b := smallTypes()
	le.PutUint32(b[12:], le32(b[12:])-n)
	return b
}

// The x32 programs of a PC have the machine's number and another class.
func TestImageOfAnotherMachineIsRefused(t *testing.T) {
	for _, c := range []struct {
		name           string
		class, order   byte
		machine, bytes uint16
	}{{"x32", 1, 1, 62, 52}, {"ARM", 2, 1, 183, 64}, {"the other order of bytes", 2, 2, 62, 64}} {
		var order interface {
			binary.ByteOrder
			binary.AppendByteOrder
		} = binary.LittleEndian
		if c.order == 2 {
			order = binary.BigEndian
		}
		b := append([]byte("\x7fELF"), c.class, c.order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		b = order.AppendUint16(b, 2)
		b = order.AppendUint16(b, c.machine)
		b = order.AppendUint32(b, 1)
		b = append(b, make([]byte, int(c.bytes)-len(b))...)
		if _, err := Read(b); err == nil || err.Error() != "it is not for x86-64" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// byHand is an image of one part with code, and symbols in it.
func byHand(code []byte, symbols ...Symbol) *Image {
	im := &Image{parts: []part{{".text", symbols[0].Addr, code, true}}, Symbols: symbols, byName: map[string][]int{}}
	for i, s := range symbols {
		im.byName[s.Name] = append(im.byName[s.Name], i)
	}
	return im
}

// Each function has 16 bytes, and begins with an instruction to do_exit.
func TestTaskEndsByCallsAndJumps(t *testing.T) {
	const base = 0x1000
	names := []string{"do_exit", "calls", "jumps", "loads", "half", "half.cold", "twin", "twin", "twin.cold"}
	ops := []byte{0xc3, 0xe8, 0xe9, 0xb8, 0xc3, 0xe8, 0xc3, 0xc3, 0xe8}
	code := bytes.Repeat([]byte{0x90}, 16*len(names))
	var symbols []Symbol
	for i, name := range names {
		at := base + uint64(16*i)
		symbols = append(symbols, Symbol{name, 'T', at})
		code[16*i] = ops[i]
		if ops[i] != 0xc3 {
			le.PutUint32(code[16*i+1:], uint32(base-(at+5)))
		}
	}
	im := byHand(code, symbols...)
	for i, want := range []string{"", "do_exit", "do_exit", "", "do_exit", "", "", "", "do_exit"} {
		if got := strings.Join(im.Exit(symbols[i].Addr), " "); got != want {
			t.Errorf("a task may end inside of %s by %q, not by %q", names[i], got, want)
		}
	}
}

// copied is a file with two functions that another file may have as well.
const copied = "static __attribute__((noinline, used)) int one(int n) { return n + STEP; }\nstatic __attribute__((noinline, used)) int two(int n) { return n * STEP; }\n"

func TestGateSelectsTheCopyOfTheFile(t *testing.T) {
	text := func(step string) string { return strings.ReplaceAll(copied, "STEP", step) }
	im := linkImage(t, text("5"), "void tune(void) { }\n"+text("7"))
	both := im.Named("one")
	if len(both) != 2 {
		t.Fatalf("one is there %d times", len(both))
	}
	if f, err := im.Gate("file.c", rebuildObject(t, text("5"))); err != nil || f.Functions["one"].Addr != both[0].Addr {
		t.Errorf("the first: %+v, %v", f, err)
	}
	if _, err := im.Gate("file.c", rebuildObject(t, text("6"))); err == nil {
		t.Error("one that is not there is taken")
	}
	if _, err := linkImage(t, text("5"), text("5")+"void tune(void) { }\n").Gate("file.c", rebuildObject(t, text("5"))); err == nil {
		t.Error("which of two equal files it is cannot be told, and it is taken")
	}
}

func TestGateRefusesAFunctionWithoutALength(t *testing.T) {
	const text = "void tune(void) { }\nint last(int n) { return n + 1; }\n"
	im := linkImage(t, "int other = 1;\n", text)
	at := im.uniqueAddr("last")
	im.Symbols = slices.DeleteFunc(im.Symbols, func(s Symbol) bool { return s.Addr > at })
	f, err := im.Gate("file.c", rebuildObject(t, text))
	if err == nil || !strings.Contains(err.Error(), "last: the kernel's table does not tell its length") {
		t.Errorf("%+v, %v", f, err)
	}
}
