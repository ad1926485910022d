// SPDX-License-Identifier: MIT

// Package link gives a module references to symbols that the kernel does not
// export. It moves their relocations into sections of their own and renames
// the symbols, in the form that the kernel's livepatch resolves by itself
// while it loads the module:
//
//	.klp.rela.OBJECT.SECTION       relocations of SECTION
//	.klp.sym.OBJECT.NAME,POSITION  symbol; 0: the only one of its name
//
// OBJECT is vmlinux, or a module. The relocations of an update of a module are written
// when livepatch finds it loaded, also those against modules that it needs.
//
// The module must say livepatch=Y in its .modinfo.
package link

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// A Target is a symbol of the kernel, as livepatch looks it up.
type Target struct {
	Name     string
	Position int
	Module   string // empty: the kernel's image
}

func (t Target) object() string {
	if t.Module == "" {
		return "vmlinux"
	}
	return t.Module
}

const (
	headerSize  = 64
	sectionSize = 64
	symbolSize  = 24
	relocSize   = 24

	typeSymtab = 2
	typeStrtab = 3
	typeRela   = 4
	typeNobits = 8
	typeRel    = 9

	flagAlloc     = 0x2
	flagInfoLink  = 0x40
	flagLivepatch = 0x00100000 // SHF_RELA_LIVEPATCH

	indexLivepatch = 0xff20 // SHN_LIVEPATCH
	indexReserved  = 0xff00

	maxModule = 256 << 20
)

var le = binary.LittleEndian

// A module is an ELF file in parts.
type module struct {
	data     []byte // from the file; new parts come behind
	sections []section
	symtab   int
}

type section struct {
	name                      string
	nameAt, kind              uint32
	flags, addr, offset, size uint64
	link, info                uint32
	align, entry              uint64
}

func (s *section) load(b []byte) {
	s.nameAt, s.kind = le.Uint32(b), le.Uint32(b[4:])
	s.flags, s.addr, s.offset, s.size = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
	s.link, s.info = le.Uint32(b[40:]), le.Uint32(b[44:])
	s.align, s.entry = le.Uint64(b[48:]), le.Uint64(b[56:])
}

func (s *section) store(b []byte) {
	le.PutUint32(b, s.nameAt)
	le.PutUint32(b[4:], s.kind)
	for i, v := range []uint64{s.flags, s.addr, s.offset, s.size} {
		le.PutUint64(b[8+8*i:], v)
	}
	le.PutUint32(b[40:], s.link)
	le.PutUint32(b[44:], s.info)
	le.PutUint64(b[48:], s.align)
	le.PutUint64(b[56:], s.entry)
}

func parse(data []byte) (*module, error) {
	if len(data) > maxModule || len(data) < headerSize || string(data[:6]) != "\x7fELF\x02\x01" || le.Uint16(data[16:]) != 1 || le.Uint16(data[18:]) != 62 {
		return nil, errors.New("it is not a module for x86-64")
	}
	at, count, names := le.Uint64(data[40:]), int(le.Uint16(data[60:])), int(le.Uint16(data[62:]))
	if le.Uint16(data[58:]) != sectionSize || count == 0 || count >= indexReserved || names >= count ||
		at > uint64(len(data)) || uint64(count*sectionSize) > uint64(len(data))-at {
		return nil, errors.New("its table of sections is damaged")
	}
	m := &module{data: bytes.Clone(data), sections: make([]section, count)}
	for i := range m.sections {
		s := &m.sections[i]
		s.load(data[at+uint64(i*sectionSize):])
		if s.kind != typeNobits && (s.offset > uint64(len(data)) || s.size > uint64(len(data))-s.offset) {
			return nil, fmt.Errorf("its section %d lies outside of it", i)
		}
		if s.kind == typeSymtab {
			m.symtab = i
		}
		if s.kind == typeRel {
			return nil, errors.New("it has relocations without addends")
		}
	}
	return m, m.readNames(names)
}

func (m *module) readNames(names int) error {
	for i := range m.sections {
		var err error
		if m.sections[i].name, err = m.stringAt(names, m.sections[i].nameAt); err != nil {
			return err
		}
	}
	if m.symtab == 0 {
		return errors.New("it has no symbols")
	}
	if t := m.sections[m.symtab]; int(t.link) >= len(m.sections) || m.sections[t.link].kind != typeStrtab {
		return errors.New("its symbols have no names")
	}
	return nil
}

// contents are those in the file, to be read or changed.
func (m *module) contents(i int) []byte {
	s := &m.sections[i]
	if s.kind == typeNobits {
		return nil
	}
	return m.data[s.offset : s.offset+s.size]
}

func (m *module) stringAt(table int, at uint32) (string, error) {
	b := m.contents(table)
	if uint64(at) < uint64(len(b)) {
		if end := bytes.IndexByte(b[at:], 0); end >= 0 {
			return string(b[at : int(at)+end]), nil
		}
	}
	return "", errors.New("a name lies outside of its table")
}

// UndefinedSymbols names the symbols that a module takes from elsewhere.
func UndefinedSymbols(data []byte) ([]string, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	var list []string
	err = m.eachUndefined(func(_ uint32, _ []byte, name string) error {
		list = append(list, name)
		return nil
	})
	return list, err
}

func (m *module) eachUndefined(each func(number uint32, symbol []byte, name string) error) error {
	table := m.contents(m.symtab)
	for at := symbolSize; at+symbolSize <= len(table); at += symbolSize {
		symbol := table[at : at+symbolSize]
		if le.Uint16(symbol[6:]) != 0 {
			continue
		}
		name, err := m.stringAt(int(m.sections[m.symtab].link), le.Uint32(symbol))
		if err != nil {
			return err
		}
		if err := each(uint32(at/symbolSize), symbol, name); err != nil {
			return err
		}
	}
	return nil
}

// RewriteSymbols moves the symbols of to, by the names that the module has for them,
// to livepatch, those of modules for when the module of the update is there. The same
// arguments always give the same bytes.
func RewriteSymbols(data []byte, to map[string]Target, module string) ([]byte, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	moved, err := m.renameSymbols(to)
	if err != nil || len(moved) == 0 {
		return m.data, err
	}
	if err := m.moveRelocs(moved, module); err != nil {
		return nil, err
	}
	return m.writeSections()
}

// renameSymbols gives the symbols their new names, and tells their numbers.
func (m *module) renameSymbols(to map[string]Target) (map[uint32]Target, error) {
	moved := map[uint32]Target{}
	strings := int(m.sections[m.symtab].link)
	names := bytes.Clone(m.contents(strings))
	err := m.eachUndefined(func(number uint32, symbol []byte, name string) error {
		target, ok := to[name]
		if !ok {
			return nil
		}
		moved[number] = target
		le.PutUint32(symbol, uint32(len(names)))
		le.PutUint16(symbol[6:], indexLivepatch)
		names = append(names, fmt.Sprintf(".klp.sym.%s.%s,%d\x00", target.object(), target.Name, target.Position)...)
		return nil
	})
	if len(moved) > 0 {
		m.replaceSection(strings, names)
	}
	return moved, err
}

// replaceSection puts new contents behind the file's others.
func (m *module) replaceSection(i int, contents []byte) {
	for len(m.data)%8 != 0 {
		m.data = append(m.data, 0)
	}
	m.sections[i].offset, m.sections[i].size = uint64(len(m.data)), uint64(len(contents))
	m.data = append(m.data, contents...)
}

// moveRelocs takes the relocations against moved symbols out of each section
// of relocations into a new one.
func (m *module) moveRelocs(moved map[uint32]Target, module string) error {
	for i := range len(m.sections) {
		s := m.sections[i]
		if s.kind != typeRela || int(s.link) != m.symtab {
			continue
		}
		if int(s.info) >= len(m.sections) {
			return fmt.Errorf("%.80q is of no section", s.name)
		}
		if s.flags&flagLivepatch != 0 {
			return errors.New("it was linked before")
		}
		stay, move := m.partRelocs(i, moved, module)
		if len(move) == 0 {
			continue
		}
		if m.sections[s.info].flags&flagAlloc == 0 {
			continue // of what is not loaded, such as debug information
		}
		copy(m.contents(i), stay)
		m.sections[i].size = uint64(len(stay))
		for _, object := range slices.Sorted(maps.Keys(move)) {
			of := m.sections[s.info].name
			if object != (Target{}).object() && !writtenLate(of) {
				return fmt.Errorf("its %s names something of the module %s, which has no address yet when the kernel reads that: leave out what is done by static keys or calls of the module", of, object)
			}
			m.sections = append(m.sections, section{
				name: ".klp.rela." + object + "." + of, kind: typeRela,
				flags: flagAlloc | flagInfoLink | flagLivepatch,
				link:  uint32(m.symtab), info: s.info, align: 8, entry: relocSize,
			})
			m.replaceSection(len(m.sections)-1, move[object])
		}
	}
	if len(m.sections) >= indexReserved {
		return errors.New("it has too many sections")
	}
	return nil
}

// writtenLate reports whether a section may be without some addresses until a module
// is there: nothing reads it before one of the update's functions runs.
func writtenLate(section string) bool {
	return strings.HasPrefix(section, ".text") || strings.HasPrefix(section, ".data") || strings.HasPrefix(section, ".rodata")
}

// partRelocs parts relocations into those that stay and those that move, by the object
// with which they are written.
func (m *module) partRelocs(i int, moved map[uint32]Target, module string) (stay []byte, move map[string][]byte) {
	move = map[string][]byte{}
	for list := m.contents(i); len(list) >= relocSize; list = list[relocSize:] {
		if t, ok := moved[le.Uint32(list[12:])]; ok {
			if t.Module != "" {
				t.Module = module
			}
			move[t.object()] = append(move[t.object()], list[:relocSize]...)
		} else {
			stay = append(stay, list[:relocSize]...)
		}
	}
	return stay, move
}

// writeSections writes the names of sections and their table anew.
func (m *module) writeSections() ([]byte, error) {
	table := int(le.Uint16(m.data[62:]))
	names := bytes.Clone(m.contents(table))
	for i := range m.sections {
		s := &m.sections[i]
		if s.nameAt == 0 && s.name != "" {
			s.nameAt = uint32(len(names))
			names = append(append(names, s.name...), 0)
		}
	}
	m.replaceSection(table, names)
	for len(m.data)%8 != 0 {
		m.data = append(m.data, 0)
	}
	at := len(m.data)
	m.data = append(m.data, make([]byte, len(m.sections)*sectionSize)...)
	for i := range m.sections {
		m.sections[i].store(m.data[at+i*sectionSize:])
	}
	le.PutUint64(m.data[40:], uint64(at))
	le.PutUint16(m.data[60:], uint16(len(m.sections)))
	return m.data, nil
}

// SymbolDistance finds how many bytes lie between two symbols of one section.
func SymbolDistance(data []byte, from, to string) (int, error) {
	m, err := parse(data)
	if err != nil {
		return 0, err
	}
	var at [2][]byte
	table := m.contents(m.symtab)
	for i := symbolSize; i+symbolSize <= len(table); i += symbolSize {
		name, err := m.stringAt(int(m.sections[m.symtab].link), le.Uint32(table[i:]))
		if err != nil {
			return 0, err
		}
		for n, want := range []string{from, to} {
			if name == want {
				at[n] = table[i : i+symbolSize]
			}
		}
	}
	if at[0] == nil || at[1] == nil || !bytes.Equal(at[0][6:8], at[1][6:8]) || le.Uint64(at[1][8:]) <= le.Uint64(at[0][8:]) {
		return 0, fmt.Errorf("it does not have %s and behind it %s", from, to)
	}
	return int(le.Uint64(at[1][8:]) - le.Uint64(at[0][8:])), nil
}

// SortTargets gives the symbols of to in a fixed order, each once.
func SortTargets(to map[string]Target) []Target {
	seen := map[Target]bool{}
	var list []Target
	for _, t := range to {
		if !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	sort.Slice(list, func(a, b int) bool {
		x, y := list[a], list[b]
		return cmp.Or(strings.Compare(x.Module, y.Module), strings.Compare(x.Name, y.Name), x.Position-y.Position) < 0
	})
	return list
}
