// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// maxObject bounds one file's object.
const maxObject = 64 << 20

// An object is what the assembler made of one file.
type object struct {
	sections []section
	symbols  []symbol
	jumps    map[int][]uint64 // by section: where branches on static keys are
}

type section struct {
	elf.SectionHeader
	data   []byte // empty for what starts as zero
	relocs []reloc
}

func (s *section) isCode() bool      { return s.Flags&elf.SHF_EXECINSTR != 0 && s.Flags&elf.SHF_ALLOC != 0 }
func (s *section) isMergeable() bool { return s.Flags&elf.SHF_MERGE != 0 }

type symbol struct {
	name           string
	section        int // -1: of another file
	value, size    uint64
	function, weak bool
	object, global bool
}

func (s symbol) isDefined() bool { return s.section >= 0 }

// isLocal tells the assembler's own labels, which the kernel does not keep.
func (s symbol) isLocal() bool { return s.name == "" || strings.HasPrefix(s.name, ".L") }

type reloc struct {
	offset uint64
	kind   elf.R_X86_64
	symbol int
	addend int64
}

// size is the number of bytes that the linker writes; 0: not known here.
func (r reloc) size() int {
	switch r.kind {
	case elf.R_X86_64_64:
		return 8
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32, elf.R_X86_64_32, elf.R_X86_64_32S:
		return 4
	}
	return 0
}

// target computes back from what was written at an address.
func (r reloc) target(written []byte, at uint64) uint64 {
	switch r.kind {
	case elf.R_X86_64_64:
		return le64(written) - uint64(r.addend)
	case elf.R_X86_64_32:
		return uint64(le32(written)) - uint64(r.addend)
	case elf.R_X86_64_32S:
		return uint64(int64(int32(le32(written)))) - uint64(r.addend)
	}
	return uint64(int64(int32(le32(written)))) + at - uint64(r.addend)
}

func readObject(data []byte) (*object, error) {
	if len(data) > maxObject {
		return nil, fmt.Errorf("%d bytes, more than %d", len(data), maxObject)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_REL {
		return nil, errors.New("it is not an object for x86-64")
	}
	o := &object{jumps: map[int][]uint64{}}
	for _, s := range f.Sections {
		part := section{SectionHeader: s.SectionHeader}
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			if s.Offset > uint64(len(data)) || s.FileSize > uint64(len(data))-s.Offset {
				return nil, fmt.Errorf("section %.40q lies outside of it", s.Name)
			}
			part.data = data[s.Offset : s.Offset+s.FileSize]
		}
		o.sections = append(o.sections, part)
	}
	if err := o.readSymbols(f); err != nil {
		return nil, err
	}
	if err := o.readRelocs(); err != nil {
		return nil, err
	}
	return o, o.readJumps()
}

func (o *object) readSymbols(f *elf.File) error {
	list, err := f.Symbols()
	if err != nil {
		return err
	}
	o.symbols = []symbol{{section: -1}}
	for _, s := range list {
		kind := elf.ST_TYPE(s.Info)
		one := symbol{name: s.Name, section: -1, value: s.Value, size: s.Size,
			function: kind == elf.STT_FUNC, object: kind == elf.STT_OBJECT,
			weak: elf.ST_BIND(s.Info) == elf.STB_WEAK, global: elf.ST_BIND(s.Info) == elf.STB_GLOBAL}
		if s.Section != elf.SHN_UNDEF && s.Section < elf.SHN_LORESERVE {
			if int(s.Section) >= len(o.sections) {
				return fmt.Errorf("symbol %.80q is in no section", s.Name)
			}
			one.section = int(s.Section)
		}
		if s.Section == elf.SHN_COMMON || s.Section == elf.SHN_XINDEX {
			return fmt.Errorf("symbol %.80q is in no section of its own", s.Name)
		}
		o.symbols = append(o.symbols, one)
	}
	return nil
}

func (o *object) readRelocs() error {
	for _, s := range o.sections {
		if s.Type == elf.SHT_REL {
			return errors.New("it has relocations without addends")
		}
		if s.Type != elf.SHT_RELA || uint64(s.Info) >= uint64(len(o.sections)) {
			continue
		}
		to := &o.sections[s.Info]
		for b := s.data; len(b) >= 24; b = b[24:] {
			info := le64(b[8:])
			r := reloc{le64(b), elf.R_X86_64(uint32(info)), int(info >> 32), int64(le64(b[16:]))}
			if r.symbol >= len(o.symbols) || r.offset >= uint64(len(to.data)) {
				return fmt.Errorf("a relocation of %.40q is damaged", to.Name)
			}
			to.relocs = append(to.relocs, r)
		}
	}
	return nil
}

// readJumps finds the branches on static keys: each entry of the table begins
// with a reference to the instruction.
func (o *object) readJumps() error {
	for i := range o.sections {
		if o.sections[i].Name != "__jump_table" {
			continue
		}
		for _, r := range o.sections[i].relocs {
			if r.offset%16 != 0 {
				continue
			}
			s := o.symbols[r.symbol]
			at := s.value + uint64(r.addend)
			if !s.isDefined() || at >= uint64(len(o.sections[s.section].data)) {
				return errors.New("its table of static keys is damaged")
			}
			o.jumps[s.section] = append(o.jumps[s.section], at)
		}
	}
	return nil
}

// functionsIn returns the functions in a section in the order of their places.
func (o *object) functionsIn(n int) []symbol {
	var list []symbol
	for _, s := range o.symbols {
		if s.section == n && s.function && !s.isLocal() {
			list = append(list, s)
		}
	}
	sort.SliceStable(list, func(a, b int) bool { return list[a].value < list[b].value })
	return list
}

// symbolAt names the function or variable around a place.
func (o *object) symbolAt(n int, at uint64) (string, uint64) {
	best := symbol{}
	for _, s := range o.symbols {
		if s.section == n && (s.function || s.object) && !s.isLocal() && s.value <= at && (best.name == "" || s.value > best.value) {
			best = s
		}
	}
	if best.name == "" {
		return o.sections[n].Name, at
	}
	return best.name, at - best.value
}

func (o *object) nameAt(n int, at uint64) string {
	name, _ := o.symbolAt(n, at)
	return name
}

func (o *object) nameOf(s symbol) string {
	if s.name != "" {
		return s.name
	}
	return o.nameAt(s.section, s.value)
}

// canReturn reports whether a function has a way out: a return, or a jump to the
// beginning of another function. Bytes are not decoded, so one that only looks
// like a way out counts as well; but without any, there is none.
func (o *object) canReturn(n int, f symbol) bool {
	s := o.sections[n]
	end := min(f.value+f.size, uint64(len(s.data)))
	for _, r := range s.relocs {
		if r.offset > f.value && r.offset < end && isJump(s.data[f.value:r.offset]) {
			return true
		}
	}
	begins := map[uint64]bool{}
	for _, other := range o.functionsIn(n) {
		begins[other.value] = other.value != f.value
	}
	for at := f.value; at < end; at++ {
		const ret = 0xc3
		if s.data[at] == ret || isJump(s.data[f.value:at]) && at+4 <= end && begins[at+4+uint64(int32(le32(s.data[at:])))] ||
			at > f.value && isShortJump(s.data[at-1]) && begins[at+1+uint64(int8(s.data[at]))] {
			return true
		}
	}
	return false
}

// isJump reports whether text ends in the first bytes of a long jump.
func isJump(text []byte) bool {
	n := len(text)
	return n > 0 && text[n-1] == 0xe9 || n > 1 && text[n-2] == 0x0f && text[n-1]&0xf0 == 0x80
}

func isShortJump(op byte) bool { return op == 0xeb || op&0xf0 == 0x70 }
