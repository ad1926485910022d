// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
)

// The kernel's own table of symbols (kallsyms) is the only one that knows all
// names: images are stripped, and Debian's System.map is empty. It is found by
// its form. The parts that name symbols stand in this order, each at a multiple
// of 8:
//
//	number of symbols (4 bytes)
//	names     per symbol a length and as many tokens; the first byte spelled
//	          out is the symbol's type
//	markers   where each 256th name begins, 4 bytes each
//	order     by name, 3 bytes each: in some kernels, not here in others
//	tokens    256 texts with a NUL
//	index     where each token begins, 2 bytes each
//
// The addresses (4-byte offsets, then an 8-byte base) stand before the number
// until 6.3, after the index since.

// A Symbol is one entry of the kernel's table, which is in order of addresses.
type Symbol struct {
	Name string
	Type byte // as nm says; capital: global
	Addr uint64
}

// Global reports whether other files of the kernel can refer to a symbol.
func (s Symbol) Global() bool { return s.Type >= 'A' && s.Type <= 'Z' }

const maxSymbols = 2_000_000

func (im *Image) readSymbols() error {
	for i := range im.parts {
		p := &im.parts[i]
		if p.name != ".rodata" {
			continue
		}
		list, err := decodeSymbols(p.data)
		if err != nil {
			return err
		}
		im.Symbols = list
		im.byName = make(map[string][]int, len(list))
		for n, s := range list {
			im.byName[s.Name] = append(im.byName[s.Name], n)
		}
		return im.checkSymbols()
	}
	return errors.New("there is no .rodata")
}

// checkSymbols compares with what the sections say: a table that was found by
// mistake would be wrong everywhere.
func (im *Image) checkSymbols() error {
	text := im.uniqueAddr("_text")
	for _, p := range im.parts {
		if p.name == ".text" && text != 0 && text == p.start {
			return nil
		}
	}
	return errors.New("its addresses are not those of the sections")
}

func decodeSymbols(ro []byte) ([]Symbol, error) {
	for at := 0; at+512 <= len(ro); at += 8 {
		table, ok := tokensBefore(ro, at)
		if !ok {
			continue
		}
		t := nameTable{ro: ro, table: table, index: at}
		if t.findNames() {
			return t.decode()
		}
	}
	return nil, errors.New("there is none")
}

// tokensBefore takes ro[at:] for the index of tokens and looks for these just
// before it.
func tokensBefore(ro []byte, at int) (int, bool) {
	index := ro[at : at+512]
	if le16(index) != 0 {
		return 0, false
	}
	for i := 0; i < 255; i++ {
		if le16(index[2*i+2:]) < le16(index[2*i:])+2 {
			return 0, false
		}
	}
	last := int(le16(index[510:]))
	for start := (at - last - 2) &^ 7; start >= 0 && at-start-last < 64; start -= 8 {
		if tokensAt(ro[start:at], index) {
			return start, true
		}
	}
	return 0, false
}

// tokensAt reports whether table holds just the texts that index says.
func tokensAt(table, index []byte) bool {
	for i := 0; i < 256; i++ {
		from := int(le16(index[2*i:]))
		end := bytes.IndexByte(table[from:], 0)
		if end <= 0 {
			return false
		}
		next := from + end + 1
		if i < 255 && next != int(le16(index[2*i+2:])) {
			return false
		}
		if i == 255 && (len(table)-next >= 8 || !allZero(table[next:])) {
			return false
		}
	}
	return true
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// A nameTable is where the parts of the kernel's table lie in ro.
type nameTable struct {
	ro                    []byte
	names, markers, count int
	table, index          int
}

// findNames looks for a number that so many names and their markers follow.
// Nearly all numbers fail at the first name.
func (t *nameTable) findNames() bool {
	for t.names = 8; t.names < t.table; t.names += 8 {
		t.count = int(le32(t.ro[t.names-8:]))
		if t.count > 0 && t.count <= maxSymbols && le32(t.ro[t.names-4:]) == 0 && t.namesFit() {
			return true
		}
	}
	return false
}

// name gives the tokens of the name at an offset and where the next begins.
func (t *nameTable) name(at int) ([]byte, int, bool) {
	if at+2 > t.table {
		return nil, 0, false
	}
	n := int(t.ro[at])
	at++
	if n&0x80 != 0 { // long names have two bytes of length, low bits first
		n = n&0x7f | int(t.ro[at])<<7
		at++
	}
	if n == 0 || at+n > t.table {
		return nil, 0, false
	}
	return t.ro[at : at+n], at + n, true
}

// namesFit checks that each name begins with a type, and each marker.
func (t *nameTable) namesFit() bool {
	var begins []int
	at := t.names
	if t.count > (t.table-t.names)/2 {
		return false
	}
	for i := 0; i < t.count; i++ {
		if i%256 == 0 {
			begins = append(begins, at-t.names)
		}
		codes, next, ok := t.name(at)
		if !ok || !validType(t.tokenText(codes[0])[0]) {
			return false
		}
		at = next
	}
	t.markers = alignUp(at, 8)
	end := alignUp(t.markers+4*len(begins), 8)
	if end != t.table && alignUp(end+3*t.count, 8) != t.table || !allZero(t.ro[at:t.markers]) {
		return false
	}
	for i, begin := range begins {
		if int(le32(t.ro[t.markers+4*i:])) != begin {
			return false
		}
	}
	return true
}

func validType(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '?' }

// tokenText returns a token with what follows it; tokensAt has seen its NUL.
func (t *nameTable) tokenText(code byte) []byte {
	return t.ro[t.table+int(le16(t.ro[t.index+2*int(code):])):]
}

func (t *nameTable) decode() ([]Symbol, error) {
	tokens := make([]string, 256)
	for i := range tokens {
		text := t.tokenText(byte(i))
		tokens[i] = string(text[:bytes.IndexByte(text, 0)])
	}
	addrs, err := t.readAddresses()
	if err != nil {
		return nil, err
	}
	list := make([]Symbol, 0, t.count)
	var text []byte
	for at, i := t.names, 0; i < t.count; i++ {
		var codes []byte
		codes, at, _ = t.name(at)
		text = text[:0]
		for _, c := range codes {
			text = append(text, tokens[c]...)
		}
		if len(text) < 2 {
			return nil, fmt.Errorf("symbol %d has no name", i)
		}
		list = append(list, Symbol{Name: string(text[1:]), Type: text[0], Addr: addrs[i]})
	}
	return list, nil
}

// readAddresses reads the offsets where either order of the table has them. The
// base is the kernel's lowest address, in the upper 2 GiB.
func (t *nameTable) readAddresses() ([]uint64, error) {
	room := alignUp(4*t.count, 8)
	for _, base := range []int{t.names - 16, t.index + 512 + room} {
		at := base - room
		if at < 0 || base+8 > len(t.ro) || le64(t.ro[base:])>>31 != 1<<33-1 {
			continue
		}
		list := make([]uint64, t.count)
		for i := range list {
			list[i] = symbolAddress(int32(le32(t.ro[at+4*i:])), le64(t.ro[base:]))
		}
		// Those of processors' own variables come first, from 0 on.
		if sort.SliceIsSorted(list, func(a, b int) bool { return list[a] < list[b] }) {
			return list, nil
		}
	}
	return nil, errors.New("its addresses are not to be found")
}

// address: offsets from zero up are absolute (CONFIG_KALLSYMS_ABSOLUTE_PERCPU).
func symbolAddress(offset int32, base uint64) uint64 {
	if offset >= 0 {
		return uint64(offset)
	}
	return base - 1 - uint64(int64(offset))
}

// uniqueAddr returns the address of a symbol that exists once, else 0.
func (im *Image) uniqueAddr(name string) uint64 {
	if list := im.byName[name]; len(list) == 1 {
		return im.Symbols[list[0]].Addr
	}
	return 0
}

// Named gives the symbols of a name in the order of the table: the n-th has
// position n for livepatch, counted from 1.
func (im *Image) Named(name string) []Symbol {
	var list []Symbol
	for _, i := range im.byName[name] {
		list = append(list, im.Symbols[i])
	}
	return list
}

// Position reports how livepatch is to look up a name that must mean addr: 0
// where the name is unique, else which it is. It fails if none is there.
func (im *Image) Position(name string, addr uint64) (int, bool) {
	list := im.sameSide(im.byName[name], addr)
	for n, i := range list {
		if im.Symbols[i].Addr == addr {
			if len(list) == 1 {
				return 0, true
			}
			return n + 1, true
		}
	}
	return 0, false
}

// Size is what the kernel takes for the length of the function at addr: up to
// the next symbol, padding included.
func (im *Image) Size(addr uint64) (int, bool) {
	if size, ok := im.sizes[addr]; ok {
		return size, true
	}
	i := sort.Search(len(im.Symbols), func(i int) bool { return im.Symbols[i].Addr > addr })
	if i == 0 || i == len(im.Symbols) || im.Symbols[i-1].Addr != addr || im.Symbols[i].Addr-addr > MaxImage {
		return 0, false
	}
	return int(im.Symbols[i].Addr - addr), true
}
