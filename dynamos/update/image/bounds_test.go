// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
	"testing"
)

// codeSection is an object with one section of code.
func codeSection(data []byte, symbols ...symbol) *object {
	s := section{SectionHeader: elf.SectionHeader{Name: ".text", Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR}, data: data}
	return &object{sections: []section{s}, symbols: symbols, jumps: map[int][]uint64{}}
}

// The reason why a file has no place in the image is the first byte that no linker and
// no tool writes.
func TestFirstDifferenceOfASection(t *testing.T) {
	const (
		base = 0x1000
		size = 32
	)
	f := symbol{name: "f", size: size, function: true}
	for at := range size {
		o := codeSection(make([]byte, size), f, symbol{name: "__fentry__", section: -1}, symbol{name: "other", section: -1})
		o.sections[0].relocs = []reloc{{1, elf.R_X86_64_PLT32, 1, -4}, {17, elf.R_X86_64_PC32, 2, -4}, {size - 8, elf.R_X86_64_64, 2, 0}}
		o.jumps[0] = []uint64{8}
		text := make([]byte, size)
		text[at] = 0x90
		g := &gate{im: byHand(text, Symbol{"f", 'T', base}), o: o, path: "f.c"}
		free := at < 5 || at >= 8 && at < 13 || at >= 17 && at < 21 || at >= size-8
		want := fmt.Sprintf("f.c: f+%#x: it has other bytes in the image", at)
		if free {
			want = "f.c: f: the image has no place where all functions of .text lie"
		}
		if err := g.firstDifference(0, []symbol{f}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d: %v, want %q", at, err, want)
		}
	}
}

// A function that begins with another byte is told from one that is not there, and
// nothing is read behind either end of the text.
func TestFirstDifferenceOfSeveralFunctions(t *testing.T) {
	list := []symbol{{name: "soft", size: 4, function: true, weak: true}, {name: "twice", value: 4, size: 4, function: true},
		{name: "last", value: 8, size: 8, function: true}}
	symbols := []Symbol{{"soft", 'W', 0x1000}, {"twice", 't', 0x1004}, {"twice", 't', 0x2000}, {"last", 'T', 0x1008}}
	for name, c := range map[string]struct {
		there, here int // bytes of both
		text        string
		want        string
	}{
		"the same bytes":                   {16, 16, "", "no place where all functions of .text"},
		"other bytes at the beginning":     {16, 16, "\x90", "last: it has other bytes"},
		"less in the image":                {12, 16, "", "no place where all functions of .text"},
		"less in the object":               {16, 12, "", "no place where all functions of .text"},
		"one byte left, which is another":  {9, 9, "\x90", "last: it has other bytes"},
		"a jump at the end of the section": {16, 10, "", "no place where all functions of .text"},
	} {
		o := codeSection(make([]byte, c.here), list...)
		o.jumps[0] = []uint64{uint64(c.here) - 1}
		if c.here == 9 {
			o.jumps[0] = nil
		}
		text := make([]byte, c.there)
		for i := range 8 { // of a weak function, and of a name that is declared twice, nothing is known
			text[i] = 0x90
		}
		copy(text[8:], c.text)
		g := &gate{im: byHand(text, symbols...), o: o, path: "f.c"}
		if err := g.firstDifference(0, list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A way out is a return, or a jump to the beginning of another function.
func TestFunctionWithAWayOut(t *testing.T) {
	const nop = "\x90\x90\x90\x90\x90\x90\x90\x90"
	for name, c := range map[string]struct {
		text string // of 16 bytes; another function follows, and one is before
		want bool
	}{
		"nothing":                               {nop + nop, false},
		"a return as the last byte":             {(nop + nop)[:15] + "\xc3", true},
		"a long jump to the next function":      {"\xe9\x0b\x00\x00\x00" + (nop + nop)[:11], true},
		"a long jump into the next function":    {"\xe9\x0c\x00\x00\x00" + (nop + nop)[:11], false},
		"a long jump to itself":                 {"\xe9\xfb\xff\xff\xff" + (nop + nop)[:11], false},
		"a long jump to the function before":    {"\xe9\xeb\xff\xff\xff" + (nop + nop)[:11], true},
		"a call of the next function":           {"\xe8\x0b\x00\x00\x00" + (nop + nop)[:11], false},
		"a condition and a long jump":           {"\x0f\x84\x0a\x00\x00\x00" + (nop + nop)[:10], true},
		"the last bytes are a long jump":        {(nop + nop)[:11] + "\xe9\x00\x00\x00\x00", true},
		"a long jump of which a byte is behind": {(nop + nop)[:12] + "\xe9\x00\x00\x00", false},
		"a short jump to the next function":     {"\xeb\x0e" + (nop + nop)[:14], true},
		"a short jump into it":                  {"\xeb\x0f" + (nop + nop)[:14], false},
		"a condition and a short jump":          {"\x74\x0e" + (nop + nop)[:14], true},
		"a loop to the next function":           {"\xe2\x0e" + (nop + nop)[:14], false},
	} {
		o := codeSection([]byte(nop+nop+c.text+"\x90\x90\xc3\xc3"+nop),
			symbol{name: "before", size: 16, function: true}, symbol{name: "f", value: 16, size: 16, function: true},
			symbol{name: "after", value: 32, size: 4, function: true})
		if got := o.canReturn(0, o.symbols[1]); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	o := codeSection([]byte(nop), symbol{name: "f", size: 64, function: true})
	if o.canReturn(0, o.symbols[0]) {
		t.Error("a function that its section cuts off returns")
	}
}

// A jump whose target the linker writes leads out of the function as well.
func TestFunctionThatLeavesByARelocation(t *testing.T) {
	for name, c := range map[string]struct {
		op     string
		offset uint64
		want   bool
	}{
		"a jump":                         {"\xe9", 1, true},
		"a condition and a jump":         {"\x0f\x8f", 2, true},
		"a call":                         {"\xe8", 1, false},
		"an operand at the beginning":    {"\xe9", 0, false},
		"behind the end of the function": {"\x90\x90\x90\x90\x90\x90\x90\xe9", 8, false},
	} {
		data := append([]byte(c.op), make([]byte, 16)...)
		o := codeSection(data, symbol{name: "f", size: 8, function: true})
		o.sections[0].relocs = []reloc{{c.offset, elf.R_X86_64_PLT32, 0, -4}}
		if got := o.canReturn(0, o.symbols[0]); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTargetOfARelocation(t *testing.T) {
	for _, c := range []struct {
		kind    elf.R_X86_64
		size    int
		written uint64
		addend  int64
		want    uint64
	}{
		{elf.R_X86_64_64, 8, 0xffffffff81000010, 0x10, 0xffffffff81000000},
		{elf.R_X86_64_32, 4, 0x81000010, 0x10, 0x81000000},
		{elf.R_X86_64_32S, 4, 0x81000010, 0x10, 0xffffffff81000000},
		{elf.R_X86_64_PC32, 4, 0x10, -4, 0x1014},
		{elf.R_X86_64_PLT32, 4, 0xfffffff0, -4, 0xff4},
		{elf.R_X86_64_GOTPCREL, 0, 0x10, -4, 0x1014},
	} {
		r := reloc{kind: c.kind, addend: c.addend}
		if got := r.target(le.AppendUint64(nil, c.written), 0x1000); got != c.want || r.size() != c.size {
			t.Errorf("%v: %#x of %d bytes, want %#x of %d", c.kind, got, r.size(), c.want, c.size)
		}
	}
}

// The symbol of a place is the last one that begins before it; labels of the assembler
// and symbols of other sections do not count.
func TestSymbolOfAPlace(t *testing.T) {
	o := codeSection(make([]byte, 64),
		symbol{name: "second", value: 16, function: true}, symbol{name: "first", value: 8, object: true}, symbol{name: ".L1", value: 20, function: true},
		symbol{name: "note", value: 24}, symbol{name: "away", value: 30, section: 1, function: true}, symbol{value: 28, function: true})
	o.sections = append(o.sections, section{})
	for at, want := range map[uint64]string{0: ".text+0", 7: ".text+7", 8: "first+0", 15: "first+7", 16: "second+0", 40: "second+24"} {
		name, offset := o.symbolAt(0, at)
		if got := fmt.Sprintf("%s+%d", name, offset); got != want {
			t.Errorf("at %d is %s, want %s", at, got, want)
		}
	}
	if list := o.functionsIn(0); len(list) != 1 || list[0].name != "second" {
		t.Errorf("functions: %+v", list)
	}
}

// A branch on a static key that the section cuts off is no branch.
func TestStaticBranchAtTheEndOfASection(t *testing.T) {
	for name, c := range map[string]struct {
		data, want string
		free       int // bytes that may differ
	}{
		"a short jump":                  {"\xeb\x00", nop2, 2},
		"a short jump that is cut off":  {"\xeb", "\x66", 0},
		"a long jump":                   {"\xe9\x00\x00\x00\x00", nop5, 5},
		"a long jump that is cut off":   {"\xe9\x00\x00\x00", nop5[:4], 0},
		"a long jump for a short no-op": {"\xe9\x00\x00\x00\x00", nop2 + "\x00\x00\x00", 0},
	} {
		free := make([]bool, len(c.data))
		freeJump([]byte(c.data), []byte(c.want), free, 0)
		n := 0
		for _, f := range free {
			if f {
				n++
			}
		}
		if n != c.free {
			t.Errorf("%s: %d bytes may differ, not %d", name, n, c.free)
		}
	}
}

// Texts end at their zero byte and constants at the size of one.
func TestLiteralsAreComparedToTheirEnd(t *testing.T) {
	const at = 0x2000
	im := &Image{parts: []part{{".rodata", at, []byte("text\x00more\x01\x02\x03\x04\x05"), false}}}
	for name, c := range map[string]struct {
		flags   elf.SectionFlag
		entsize uint64
		data    string
		value   uint64
		addr    uint64
		why     string
	}{
		"a text":                          {elf.SHF_STRINGS, 1, "text\x00other", 0, at, ""},
		"a text inside of a longer one":   {elf.SHF_STRINGS, 1, "a text\x00", 2, at, ""},
		"another text":                    {elf.SHF_STRINGS, 1, "tent\x00", 0, at, "another text or constant"},
		"a text that goes on":             {elf.SHF_STRINGS, 1, "text.\x00", 0, at, "another text or constant"},
		"a constant":                      {0, 4, "\x01\x02\x03\x04\x09\x09\x09\x09", 0, at + 9, ""},
		"the last constant":               {0, 4, "\x09\x09\x09\x09\x01\x02\x03\x04", 4, at + 9, ""},
		"another constant":                {0, 4, "\x01\x02\x03\x05", 0, at + 9, "another text or constant"},
		"a constant at the image's end":   {0, 4, "\x02\x03\x04\x05", 0, at + 10, ""},
		"a constant behind it":            {0, 4, "\x03\x04\x05\x00", 0, at + 11, "another text or constant"},
		"another value of no size":        {0, 0, "\x01\x02\x03\x04\x06", 0, at + 9, "another text or constant"},
		"no size of one":                  {0, 0, "\x01\x02\x03\x04\x05", 0, at + 9, ""},
		"a reference to the end":          {0, 4, "\x01\x02\x03\x04", 4, at + 9, ""},
		"a reference behind the end":      {0, 4, "\x01\x02\x03\x04", 5, at + 9, "it refers beyond .rodata.cst"},
		"less than the size of one there": {0, 8, "\x01\x02\x03\x04", 0, at + 9, ""},
	} {
		s := section{SectionHeader: elf.SectionHeader{Name: ".rodata.cst", Flags: elf.SHF_MERGE | c.flags, Entsize: c.entsize}, data: []byte(c.data)}
		g := &gate{im: im, o: &object{sections: []section{s}}, path: "f.c"}
		err := g.checkLiteral(symbol{value: c.value}, c.addr, "f", 1)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// What an image has at an address ends with its section.
func TestBytesOfAnImageEndWithTheirSection(t *testing.T) {
	im := &Image{parts: []part{{".init.text", 0x1000, []byte("0123"), true}, {".text", 0x1004, []byte("4567"), true}}}
	for _, c := range []struct {
		addr    uint64
		n       int
		want    string
		section string
	}{
		{0xfff, 1, "", ""}, {0x1000, 0, "", ".init.text"}, {0x1000, 4, "0123", ".init.text"}, {0x1000, 5, "", ".init.text"},
		{0x1003, 1, "3", ".init.text"}, {0x1004, 4, "4567", ".text"}, {0x1007, -1, "", ".text"}, {0x1008, 0, "", ""},
	} {
		got, ok := im.Bytes(c.addr, c.n)
		if string(got) != c.want || ok != (c.section != "" && c.n >= 0 && len(c.want) == c.n) {
			t.Errorf("%d bytes at %#x: %q, %v", c.n, c.addr, got, ok)
		}
		if got := im.Section(c.addr); got != c.section {
			t.Errorf("%#x is in %q, not %q", c.addr, got, c.section)
		}
	}
}

// What is freed lies between two symbols, or in a section of the start or of the end.
func TestFreedText(t *testing.T) {
	im := byHand(bytes.Repeat([]byte{0x90}, 64), Symbol{"_text", 'T', 0x1000}, Symbol{"__init_begin", 'D', 0x1010}, Symbol{"__init_end", 'D', 0x1020})
	im.parts = append(im.parts, part{".init.text", 0x3000, make([]byte, 4), true}, part{".exit.text", 0x4000, make([]byte, 4), true})
	for addr, want := range map[uint64]bool{0x100f: false, 0x1010: true, 0x101f: true, 0x1020: false, 0x3000: true, 0x4003: true, 0x4004: false} {
		if got := im.Init(addr); got != want {
			t.Errorf("%#x is freed: %v", addr, got)
		}
	}
}

// An entry of the table of sealed functions is the distance from itself.
func TestSealedFunctions(t *testing.T) {
	table := le.AppendUint32(le.AppendUint32(nil, 0x100), uint32(0xfffffffc))
	im := &Image{parts: []part{{".data", 0x1000, table, false}, {".ibt_endbr_seal", 0x2000, append(table, 0, 0, 0), false}}}
	for addr, want := range map[uint64]bool{0x2100: true, 0x2000: true, 0x2004: false, 0x1100: false, 0x2008: false} {
		if got := im.Sealed(addr); got != want {
			t.Errorf("%#x is sealed: %v", addr, got)
		}
	}
}

// What lies between functions is filled by the linker, and is not compared; each byte of
// a function is.
func TestGapsBetweenFunctionsAreNotCompared(t *testing.T) {
	const base, size = 0x1000, 48
	list := []symbol{{name: "f", value: 16, size: 8, function: true}, {name: "g", value: 32, size: 16, function: true}}
	for at := range size {
		text := make([]byte, size)
		text[at] = 1
		g := &gate{im: byHand(text, Symbol{"x", 'T', base}), o: codeSection(make([]byte, size), list...), path: "f.c", base: map[int]uint64{0: base}}
		inside := at >= 16 && at < 24 || at >= 32
		if err := g.compare(0); (err != nil) != inside {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	g := &gate{im: byHand(make([]byte, size-1), Symbol{"x", 'T', base}), o: codeSection(make([]byte, size), list...), path: "f.c", base: map[int]uint64{0: base}}
	if err := g.compare(0); err == nil || !strings.Contains(err.Error(), ".text goes beyond the image") {
		t.Errorf("one byte less in the image: %v", err)
	}
}

// A relocation is one that a kernel's linker resolves, and all its bytes are in the section.
func TestRelocationsThatAKernelHasNot(t *testing.T) {
	const base = 0x1000
	for name, c := range map[string]struct {
		r   reloc
		why string
	}{
		"at the end":              {reloc{4, elf.R_X86_64_PC32, 1, -4}, ""},
		"behind the end":          {reloc{5, elf.R_X86_64_PC32, 1, -4}, "its relocation of type 2 is of no use"},
		"of eight bytes":          {reloc{0, elf.R_X86_64_64, 1, 0}, ""},
		"one byte too far":        {reloc{1, elf.R_X86_64_64, 1, 0}, "its relocation of type 1 is of no use"},
		"by a table":              {reloc{0, elf.R_X86_64_GOTPCREL, 1, -4}, "its relocation of type 9 is of no use"},
		"ftrace without its call": {reloc{0, elf.R_X86_64_PLT32, 2, -4}, "the image has no call of ftrace here"},
		"ftrace":                  {reloc{1, elf.R_X86_64_PLT32, 2, -4}, ""},
	} {
		o := codeSection(make([]byte, 8), symbol{name: "f", size: 8, function: true}, symbol{name: "other", section: -1}, symbol{name: "__fentry__", section: -1})
		g := &gate{im: &Image{}, o: o, path: "f.c", base: map[int]uint64{0: base}, symbols: map[string]uint64{}}
		free := make([]bool, 8)
		err := g.checkReloc(0, c.r, base, []byte("\xe8\x00\x00\x00\x00\x00\x00\x00"), free)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
		for i, f := range free {
			if err != nil {
				break // nothing is compared any more
			}
			begin := int(c.r.offset)
			if c.r.symbol == 2 {
				begin-- // the call itself too
			}
			if want := i >= begin && i < int(c.r.offset)+c.r.size(); f != want {
				t.Errorf("%s: byte %d may differ: %v", name, i, f)
			}
		}
	}
}
