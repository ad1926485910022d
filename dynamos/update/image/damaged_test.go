// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// assembled is an object with two functions, data, a branch on a static key and
// relocations.
func assembled(t *testing.T) []byte {
	t.Helper()
	return compileText(t, t.TempDir(), "o.o", `	.file "x"
	.text
	.type f, @function
f:	call other
1:	jmp 2f
2:	ret
	.size f, . - f
	.type g, @function
g:	ret
	.size g, . - g
	.pushsection __jump_table, "aw"
	.long 1b - ., 2b - .
	.quad key - .
	.popsection
	.data
	.type value, @object
value:	.quad f
	.size value, 8
`, "-c")
}

// headerAt returns the place of a section's header.
func headerAt(t *testing.T, object []byte, name string) int {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Name == name {
			return int(le64(object[40:])) + 64*i
		}
	}
	t.Fatalf("the object has no %s", name)
	return 0
}

// Fields of such a header.
const (
	headerType   = 4
	headerOffset = 24
	headerSize   = 32
	headerInfo   = 44
)

func TestDamagedObjectIsRefused(t *testing.T) {
	whole := assembled(t)
	o, err := readObject(whole)
	if err != nil || len(o.jumps) != 1 || len(o.functionsIn(1)) != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	in := func(name string, field int) func(b []byte) []byte {
		at := headerAt(t, whole, name)
		return func(b []byte) []byte { return b[at+field:] }
	}
	inside := func(name string, offset uint64) func(b []byte) []byte {
		at := headerAt(t, whole, name)
		begin := le64(whole[at+headerOffset:]) + offset
		return func(b []byte) []byte { return b[begin:] }
	}
	number := uint64(len(o.symbols))
	entry := func(name string) uint64 { // of a symbol
		for i, s := range o.symbols {
			if s.name == name {
				return uint64(24 * i)
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	for name, c := range map[string]struct {
		at    func(b []byte) []byte
		value uint64
		size  int
		why   string
	}{
		"another machine":                    {func(b []byte) []byte { return b[18:] }, uint64(elf.EM_AARCH64), 2, "it is not an object for x86-64"},
		"a program":                          {func(b []byte) []byte { return b[16:] }, uint64(elf.ET_EXEC), 2, "it is not an object for x86-64"},
		"a section that ends behind it":      {in(".data", headerSize), uint64(len(whole)), 8, `section ".data" lies outside of it`},
		"a section that begins behind it":    {in(".data", headerOffset), uint64(len(whole)) + 1, 8, `section ".data" lies outside of it`},
		"relocations without addends":        {in(".rela.data", headerType), uint64(elf.SHT_REL), 4, "without addends"},
		"relocations of no section":          {in(".rela.data", headerInfo), 100, 4, ""},
		"a relocation behind the section":    {inside(".rela.data", 0), 8, 8, `a relocation of ".data" is damaged`},
		"the last byte of the section":       {inside(".rela.data", 0), 7, 8, ""},
		"a relocation for no symbol":         {inside(".rela.data", 8), number<<32 | uint64(elf.R_X86_64_64), 8, `a relocation of ".data" is damaged`},
		"the last symbol":                    {inside(".rela.data", 8), (number-1)<<32 | uint64(elf.R_X86_64_64), 8, ""},
		"a symbol in a section behind all":   {inside(".symtab", entry("value")+6), uint64(len(o.sections)), 2, `symbol "value" is in no section`},
		"a symbol in the last section":       {inside(".symtab", entry("value")+6), uint64(len(o.sections)) - 1, 2, ""},
		"a common symbol":                    {inside(".symtab", entry("value")+6), uint64(elf.SHN_COMMON), 2, `symbol "value" is in no section of its own`},
		"a symbol in a section without room": {inside(".symtab", entry("value")+6), uint64(elf.SHN_XINDEX), 2, `symbol "value" is in no section of its own`},
		"an absolute symbol":                 {inside(".symtab", entry("value")+6), uint64(elf.SHN_ABS), 2, ""},
		"a branch of another file":           {inside(".rela__jump_table", 8), entry("other")/24<<32 | uint64(elf.R_X86_64_PC32), 8, "static keys is damaged"},
		"a branch behind the section":        {inside(".rela__jump_table", 16), 9, 8, "static keys is damaged"},
		"a branch at the section's end":      {inside(".rela__jump_table", 16), 8, 8, ""},
		"no symbols at all":                  {in(".symtab", headerType), uint64(elf.SHT_PROGBITS), 4, "no symbol section"},
	} {
		b := bytes.Clone(whole)
		copy(c.at(b), le.AppendUint64(nil, c.value)[:c.size])
		var other *Mismatch
		if _, err := new(Image).Gate("a.c", b); c.why != "" && (!errors.As(err, &other) || other.Path != "a.c" || !strings.Contains(other.Reason, c.why)) {
			t.Errorf("%s: the gate says %v", name, err)
		}
		if _, err := readObject(b); (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// A section without contents has none in the object either.
func TestObjectIsReadAsItIsWritten(t *testing.T) {
	o, err := readObject(compileText(t, t.TempDir(), "o.o", "\t.file \"x\"\n\t.bss\n\t.skip 64\n\t.data\n\t.weak w\nw:\t.long 1\n"+
		"\t.type d, @object\nd:\t.long d + 8\n\t.size d, 4\n\t.section .str,\"aMS\",@progbits,1\n\t.string \"x\"\n", "-c"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range o.sections {
		switch {
		case s.Name == ".bss" && len(s.data) != 0, s.Name == ".data" && len(s.data) != 8, s.isMergeable() != (s.Name == ".str"), s.isCode() != (s.Name == ".text"):
			t.Errorf("%s: %d bytes, mergeable %v, code %v", s.Name, len(s.data), s.isMergeable(), s.isCode())
		}
	}
	var d, w symbol
	for _, s := range o.symbols {
		switch s.name {
		case "d":
			d = s
		case "w":
			w = s
		}
	}
	if d.weak || !d.object || d.function || d.size != 4 || d.value != 4 || !w.weak || w.object || !w.isDefined() || o.symbols[0].isDefined() {
		t.Errorf("%+v, %+v", d, w)
	}
	if r := o.sections[d.section].relocs; len(r) != 1 || r[0].offset != 4 || r[0].addend+int64(o.symbols[r[0].symbol].value) != 12 {
		t.Errorf("relocations %+v", r)
	}
}

// Sizes of notes up to the largest ones, and the build-id behind other notes.
func TestNotesBeforeTheBuildID(t *testing.T) {
	note := func(kind uint32, name, text string) string {
		pad := func(s string) string { return s + strings.Repeat("\x00", -len(s)&3) }
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, uint32(len(name))), uint32(len(text))), kind)
		return string(b) + pad(name) + pad(text)
	}
	id := note(3, "GNU\x00", strings.Repeat("\xab", 20))
	for name, c := range map[string]struct{ notes, why string }{
		"the build-id alone":              {id, ""},
		"a note of another kind":          {note(5, "GNU\x00", "12345") + id, ""},
		"a note of another name":          {note(3, "Xen\x00", strings.Repeat("\xcd", 20)) + id, ""},
		"an id of another length":         {note(3, "GNU\x00", strings.Repeat("\xcd", 16)) + id, ""},
		"the longest name":                {note(3, strings.Repeat("n", 256), "") + id, ""},
		"a longer name":                   {note(3, strings.Repeat("n", 257), "") + id, "damaged"},
		"the longest text":                {note(1, "GNU\x00", strings.Repeat("t", 4096)) + id, ""},
		"a longer text":                   {note(1, "GNU\x00", strings.Repeat("t", 4097)) + id, "damaged"},
		"a text without its padding":      {note(1, "GNU\x00", "1")[:17], "no build-id"},
		"11 bytes behind the last note":   {note(1, "GNU\x00", "") + id[:11], "no build-id"},
		"the header of a note, and no id": {note(1, "GNU\x00", "") + id[:12], "damaged"},
	} {
		im := &Image{parts: []part{{".notes", 0x1000, []byte(c.notes), false}}}
		err := im.readNotes()
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		if c.why == "" && im.BuildID != strings.Repeat("ab", 20) {
			t.Errorf("%s: %q", name, im.BuildID)
		}
	}
}

func TestBannerOfAnotherKernel(t *testing.T) {
	for text, want := range map[string][3]string{
		smallBanner: {"6.1.0-9-amd64", "gcc-12 (Debian 12.2.0-14) 12.2.0", "6.1.27-1"},
		strings.ReplaceAll(smallBanner, " Debian 6.1.27-1", ""):           {"6.1.0-9-amd64", "gcc-12 (Debian 12.2.0-14) 12.2.0", ""},
		strings.Replace(smallBanner, "6.1.0", strings.Repeat("6", 66), 1): {},
		strings.Replace(smallBanner, "GNU ld", "LLD", 1):                  {},
	} {
		im := &Image{parts: []part{{".rodata", 0x1000, []byte("x" + text + "\ny"), false}}}
		im.readBanner()
		if got := [3]string{im.Release, im.Compiler, im.Version}; got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

// The list of places that ftrace knows lies between two symbols, whole and in the image.
func TestListOfTracedPlaces(t *testing.T) {
	const at = 0x1000
	list := le.AppendUint64(le.AppendUint64(nil, 0x5000), 0x6004)
	for name, c := range map[string]struct {
		start, stop uint64
		why         string
	}{
		"both":                     {at, at + 16, ""},
		"no list":                  {at, at, "there is none"},
		"an end before the start":  {at + 8, at, "there is none"},
		"half an entry":            {at, at + 12, "there is none"},
		"more than an image holds": {at, at + 64<<20 + 8, "there is none"},
		"as much as possible":      {at, at + 64<<20, "it lies outside of the image"},
		"one entry more":           {at, at + 24, "it lies outside of the image"},
		"no start":                 {0, at + 16, "there is none"},
	} {
		im := &Image{parts: []part{{".init.data", at, list, false}}, byName: map[string][]int{}}
		if c.start != 0 {
			im.Symbols = append(im.Symbols, Symbol{"__start_mcount_loc", 'R', c.start})
			im.byName["__start_mcount_loc"] = []int{0}
		}
		im.Symbols = append(im.Symbols, Symbol{"__stop_mcount_loc", 'R', c.stop})
		im.byName["__stop_mcount_loc"] = []int{len(im.Symbols) - 1}
		err := im.readTraced()
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		if c.why != "" {
			continue
		}
		for addr, want := range map[uint64]uint64{0x5000: 0x5000, 0x6004: 0x6004, 0x6000: 0x6004, 0x5004: 0, 0x4ffc: 0x5000, 0x5ffc: 0} {
			if got, ok := im.Traced(addr); got != want || ok != (want != 0) {
				t.Errorf("%#x is traced at %#x, %v", addr, got, ok)
			}
		}
	}
}

// The digest of a function leaves out the five bytes that the kernel writes, if they are
// all of that function.
func TestDigestOfATracedFunction(t *testing.T) {
	digest := func(first, last byte, size uint64, place uint64) *Function {
		text := append([]byte{first, 0, 0, 0, 0, 0, 0, 0, 0, last}, make([]byte, 10)...)
		im := byHand(text, Symbol{"f", 'T', 0x1000}, Symbol{"end", 'T', 0x1000 + size})
		im.traced = map[uint64]bool{place: true}
		f, err := im.Function(im.Symbols[0])
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, c := range map[string]struct {
		size, place  uint64
		traced, same bool // with another first byte
	}{
		"at the beginning":            {10, 0x1000, true, true},
		"behind a landing pad":        {10, 0x1004, true, false},
		"of just that length":         {5, 0x1000, true, true},
		"one byte too short":          {4, 0x1000, false, false},
		"a landing pad and no more":   {9, 0x1004, true, false},
		"a landing pad and one less":  {8, 0x1004, false, false},
		"no place of this function's": {10, 0x1008, false, false},
	} {
		a, b := digest(1, 7, c.size, c.place), digest(2, 7, c.size, c.place)
		if a.Traced != c.traced || (a.Digest == b.Digest) != c.same || a.Size != int(c.size) || a.Addr != 0x1000 || a.Name != "f" {
			t.Errorf("%s: %+v and %+v", name, a, b)
		}
		if d := digest(1, 8, c.size, c.place); c.size == 10 && d.Digest == a.Digest {
			t.Errorf("%s: the last byte makes no difference", name)
		}
	}
	im := byHand([]byte{0xc3}, Symbol{"f", 'T', 0x1000}, Symbol{"end", 'T', 0x1010})
	if _, err := im.Function(im.Symbols[0]); err == nil || !strings.Contains(err.Error(), "it lies outside of the image") {
		t.Errorf("a function that the section cuts off: %v", err)
	}
}

// An address is told by the symbol before it.
func TestNamesOfAddresses(t *testing.T) {
	im := byHand(make([]byte, 64), Symbol{"f", 'T', 0x1000}, Symbol{"g", 't', 0x1010})
	for addr, want := range map[uint64]string{0xfff: "0xfff", 0x1000: "f", 0x100f: "f+0xf", 0x1010: "g", 0x1011: "g+0x1"} {
		if got := im.describeAddr(addr); got != want {
			t.Errorf("%#x is %s, not %s", addr, got, want)
		}
	}
	for c, global := range map[byte]bool{'A': true, 'T': true, 'Z': true, 'a': false, 't': false, '?': false, '[': false, '@': false} {
		if got := (Symbol{Type: c}).Global(); got != global {
			t.Errorf("%c is global: %v", c, got)
		}
	}
}

// Tasks end on the way out of what a processor enters, whoever was interrupted.
func TestEntriesOfTheKernelEndNoTask(t *testing.T) {
	const base = 0x1000
	names := []string{"do_exit", "make_task_dead", "__noinstr_text_start", "__noinstr_text_end", "after"}
	code := bytes.Repeat([]byte{0x90}, 16*len(names))
	var symbols []Symbol
	for i, name := range names {
		symbols = append(symbols, Symbol{name, 'T', base + uint64(16*i)})
		if i > 0 {
			code[16*i] = 0xe8
			le.PutUint32(code[16*i+1:], uint32(-(16*i + 5)))
		}
	}
	im := byHand(code, symbols...)
	for i, want := range []string{"", "", "", "do_exit", "do_exit"} {
		if got := strings.Join(im.Exit(symbols[i].Addr), " "); got != want {
			t.Errorf("%s: %q, not %q", names[i], got, want)
		}
	}
	for addr, want := range map[uint64]bool{0x101f: false, 0x1020: true, 0x102f: true, 0x1030: false} {
		if got := im.isEntry(addr); got != want {
			t.Errorf("%#x is an entry: %v", addr, got)
		}
	}
	im.byName["__noinstr_text_end"] = nil
	if im.isEntry(0x1020) {
		t.Error("an entry without an end")
	}
}

// The table of symbols is that of the section .rodata, wherever it stands.
func TestSymbolsAreThoseOfRodata(t *testing.T) {
	text := part{".text", 0xffffffff81000000, []byte{0xc3}, true}
	ro := part{".rodata", 0xffffffff82000000, kernelTable(manySymbols(), true), false}
	for i, parts := range [][]part{{text, ro}, {ro, text}} {
		im := &Image{parts: parts}
		if err := im.readSymbols(); err != nil || len(im.Symbols) != len(manySymbols()) || im.uniqueAddr("f3") != 0xffffffff81001030 {
			t.Errorf("order %d: %d symbols, %v", i, len(im.Symbols), err)
		}
	}
	if err := (&Image{parts: []part{text}}).readSymbols(); err == nil || !strings.Contains(err.Error(), "there is no .rodata") {
		t.Errorf("without one: %v", err)
	}
}

// How livepatch is to look up a name that stands more than once.
func TestPositionsOfNames(t *testing.T) {
	im := byHand(make([]byte, 64), Symbol{"one", 'T', 0x1000}, Symbol{"two", 't', 0x1010}, Symbol{"two", 't', 0x1020})
	for _, c := range []struct {
		name string
		addr uint64
		want int
		ok   bool
	}{{"one", 0x1000, 0, true}, {"one", 0x1010, 0, false}, {"two", 0x1010, 1, true}, {"two", 0x1020, 2, true}, {"none", 0x1000, 0, false}} {
		if n, ok := im.Position(c.name, c.addr); n != c.want || ok != c.ok {
			t.Errorf("%s at %#x: %d, %v", c.name, c.addr, n, ok)
		}
	}
	if im.uniqueAddr("one") != 0x1000 || im.uniqueAddr("two") != 0 || len(im.Named("two")) != 2 || im.Named("none") != nil {
		t.Error("names are not found as often as they are there")
	}
}

func TestImagesThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if _, err := Open(path); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path+" is not a readable kernel image: ") {
		t.Errorf("a text: %v", err)
	}
	whole := linkVmlinux(t, smallBuildID, smallBanner, smallSymbols(), smallTypes())
	at := headerAt(t, whole, ".BTF")
	for field, value := range map[int]uint64{headerOffset: uint64(len(whole)) + 1, headerSize: uint64(len(whole))} {
		b := bytes.Clone(whole)
		le.PutUint64(b[at+field:], value)
		if _, err := Read(b); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("section %q lies outside of it", ".BTF")) {
			t.Errorf("%#x at %d: %v", value, field, err)
		}
	}
}
