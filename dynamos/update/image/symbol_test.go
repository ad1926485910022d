// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var le = binary.LittleEndian

// kernelTable writes symbols as a kernel's build does: offsets last as since
// 6.4, or first, then with the names' order as in 6.1.
func kernelTable(list []Symbol, offsetsLast bool) []byte {
	const base = 0xffffffff81000000
	b := []byte("something else\x00\x00")
	pad := func() {
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
	}
	offsets := func() {
		pad()
		for _, s := range list {
			offset := uint32(base - 1 - s.Addr)
			if s.Addr < 1<<31 {
				offset = uint32(s.Addr)
			}
			b = le.AppendUint32(b, offset)
		}
		pad()
		b = le.AppendUint64(b, base)
	}
	if !offsetsLast {
		offsets()
	}
	b = le.AppendUint64(b, uint64(len(list)))
	var marks []uint32
	names := len(b)
	for i, s := range list {
		if i%256 == 0 {
			marks = append(marks, uint32(len(b)-names))
		}
		text := string(s.Type) + s.Name
		if n := len(text); n < 128 {
			b = append(b, byte(n))
		} else {
			b = append(b, byte(n&0x7f|0x80), byte(n>>7))
		}
		b = append(b, text...) // each byte is the token of itself
	}
	pad()
	for _, m := range marks {
		b = le.AppendUint32(b, m)
	}
	pad()
	if !offsetsLast {
		b = append(b, make([]byte, 3*len(list))...)
		pad()
	}
	var index []uint16
	tokens := len(b)
	for i := range 256 {
		index = append(index, uint16(len(b)-tokens))
		text := string(rune(i))
		if i == 0 || i > 126 {
			text = fmt.Sprintf("unused%d", i)
		}
		b = append(append(b, text...), 0)
	}
	pad()
	for _, n := range index {
		b = le.AppendUint16(b, n)
	}
	if offsetsLast {
		offsets()
	}
	pad()
	return append(b, "more that follows it"...)
}

func manySymbols() []Symbol {
	list := []Symbol{{"percpu", 'A', 0x1000}, {"_text", 'T', 0xffffffff81000000}}
	for i := range 700 {
		list = append(list, Symbol{fmt.Sprintf("f%d", i), "tTdW"[i%4], 0xffffffff81001000 + uint64(16*i)})
	}
	return append(list, Symbol{strings.Repeat("long", 50), 'b', 0xffffffff82000000})
}

func TestSymbolTableInBothOrders(t *testing.T) {
	for _, last := range []bool{false, true} {
		got, err := decodeSymbols(kernelTable(manySymbols(), last))
		if err != nil || !reflect.DeepEqual(got, manySymbols()) {
			t.Errorf("offsets last %v: %d symbols, %v", last, len(got), err)
		}
	}
}

func TestDamagedSymbolTableIsRefused(t *testing.T) {
	table := kernelTable(manySymbols(), true)
	name := bytes.Index(table, []byte("\x04tf4\x00"[:4]))
	for what, spoil := range map[string]func(b []byte) []byte{
		"the table is truncated":            func(b []byte) []byte { return b[:len(b)-1000] },
		"the length of a name is one more":  func(b []byte) []byte { b[name]++; return b },
		"the number of symbols is one more": func(b []byte) []byte { b[16]++; return b },
		"the base address is not in the upper 2 GiB": func(b []byte) []byte {
			return bytes.Replace(b, []byte("\x81\xff\xff\xff\xff"), []byte("\x81\xff\xff\xff\x7f"), 1)
		},
		"a token has a zero byte in it": func(b []byte) []byte { return bytes.Replace(b, []byte("unused200"), []byte("unused\x0000"), 1) },
		"only zero bytes":               func(b []byte) []byte { return make([]byte, 4096) },
	} {
		if list, err := decodeSymbols(spoil(bytes.Clone(table))); err == nil {
			t.Errorf("%s: gives %d symbols", what, len(list))
		}
	}
}

// The table may be the last of its section, but no byte of it may be missing.
func TestSymbolTableAtTheEndOfASection(t *testing.T) {
	for _, last := range []bool{false, true} {
		whole := bytes.TrimSuffix(kernelTable(manySymbols(), last), []byte("more that follows it"))
		for n := range 24 {
			list, err := decodeSymbols(whole[:len(whole)-n])
			if ok := err == nil && len(list) == len(manySymbols()); ok != (n == 0) {
				t.Errorf("%d bytes less, offsets last %v: %d symbols, %v", n, last, len(list), err)
			}
		}
	}
}

// Behind the texts of the tokens there is less than a word of zero bytes.
func TestTokensAreFollowedByTheirIndex(t *testing.T) {
	var table, index []byte
	for i := range 256 {
		index = le.AppendUint16(index, uint16(len(table)))
		table = append(table, fmt.Sprintf("t%d", i)...)
		table = append(table, 0)
	}
	for n, want := range map[int]bool{0: true, 7: true, 8: false} {
		if got := tokensAt(append(bytes.Clone(table), make([]byte, n)...), index); got != want {
			t.Errorf("%d zero bytes: %v", n, got)
		}
	}
	if tokensAt(append(bytes.Clone(table), 1), index) {
		t.Error("something else follows them")
	}
	if tokensAt(bytes.Replace(table, []byte("t7\x00"), []byte("\x00\x00\x00"), 1), index) {
		t.Error("an empty token")
	}
}

// A section at address 0 is not where a symbol is that does not exist.
func TestImageWithoutTextSymbolIsRefused(t *testing.T) {
	im := &Image{parts: []part{{name: ".text", data: []byte{0xc3}, code: true}}}
	if err := im.checkSymbols(); err == nil {
		t.Error("taken, with .text at address 0 and no _text")
	}
}

func TestLengthEndsAtTheNextSymbol(t *testing.T) {
	im := &Image{Symbols: manySymbols()}
	if n, ok := im.Size(0xffffffff81001000); n != 16 || !ok {
		t.Errorf("%d bytes, %v", n, ok)
	}
	for _, addr := range []uint64{0, 0xffffffff81001001, 0xffffffff82000000, 1 << 63} {
		if n, ok := im.Size(addr); ok {
			t.Errorf("%#x has %d bytes", addr, n)
		}
	}
}

func FuzzSymbols(f *testing.F) {
	f.Add(kernelTable(manySymbols(), true))
	f.Add(kernelTable(manySymbols()[:3], false))
	f.Fuzz(func(t *testing.T, data []byte) { decodeSymbols(data) })
}
