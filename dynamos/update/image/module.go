// SPDX-License-Identifier: MIT

package image

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// Where WithModule puts a module, and what it takes from other modules. The
// kernel keeps modules there too, at other places in each boot.
const (
	moduleBase  = 0xffffffffc0000000
	foreignBase = 0xffffffffb0000000
	foreignStep = 16
)

// A moduleLoader loads a module as the kernel does, into an image and not into a
// machine.
type moduleLoader struct {
	im      *Image // with it
	kernel  *Image
	o       *object
	base    map[int]uint64
	data    map[int][]byte
	foreign map[string]uint64
}

// WithModule returns the image with a module of the distribution loaded, so that the
// files that the module was made of have a place in it: all that can be asked of the
// image's own functions can then be asked of the module's.
func (im *Image) WithModule(name string, ko []byte) (*Image, error) {
	o, err := readObject(ko)
	if err != nil {
		return nil, err
	}
	l := &moduleLoader{kernel: im, o: o, base: map[int]uint64{}, data: map[int][]byte{}, foreign: map[string]uint64{},
		im: &Image{BuildID: im.BuildID, Release: im.Release, Version: im.Version, Compiler: im.Compiler, types: im.types,
			Module: name, parts: slices.Clone(im.parts), traced: maps.Clone(im.traced), sizes: map[uint64]int{}}}
	l.placeSections()
	l.im.Needs = o.needs()
	for i := range o.sections {
		if err := l.relocate(i); err != nil {
			return nil, err
		}
	}
	l.addParts()
	l.addSymbols()
	if l.im.ModuleID == "" {
		return nil, errors.New("it has no build-id")
	}
	return l.im, nil
}

func (l *moduleLoader) placeSections() {
	at := uint64(moduleBase)
	for i, s := range l.o.sections {
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		to := max(s.Addralign, 16)
		at = (at + to - 1) / to * to
		l.base[i] = at
		l.data[i] = slices.Clone(s.data)
		at += s.Size + foreignStep // no name stands for the end of one and the beginning of the next
	}
}

// address is where a symbol of the module is, or what it takes from elsewhere.
func (l *moduleLoader) address(s symbol) uint64 {
	if s.isDefined() {
		return l.base[s.section] + s.value
	}
	for _, k := range l.kernel.Named(s.name) {
		if k.Global() {
			return k.Addr
		}
	}
	if l.foreign[s.name] == 0 {
		l.foreign[s.name] = foreignBase + foreignStep*uint64(len(l.foreign))
	}
	return l.foreign[s.name]
}

// relocate writes what the module's loader would write.
func (l *moduleLoader) relocate(n int) error {
	data := l.data[n]
	for _, r := range l.o.sections[n].relocs {
		size := r.size()
		if data == nil || size == 0 && !l.o.sections[n].isCode() {
			continue // tables that nothing here asks for
		}
		if r.kind == elf.R_X86_64_NONE {
			continue // objtool wrote the instruction anew
		}
		if size == 0 || r.offset+uint64(size) > uint64(len(data)) {
			return fmt.Errorf("its relocation of type %d in %.40q is of no use in a kernel", r.kind, l.o.sections[n].Name)
		}
		to := l.address(l.o.symbols[r.symbol]) + uint64(r.addend)
		switch r.kind {
		case elf.R_X86_64_64:
			binary.LittleEndian.PutUint64(data[r.offset:], to)
			continue
		case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
			to -= l.base[n] + r.offset
		}
		binary.LittleEndian.PutUint32(data[r.offset:], uint32(to))
	}
	return nil
}

func (l *moduleLoader) addParts() {
	for i, s := range l.o.sections {
		data := l.data[i]
		if len(data) == 0 {
			continue
		}
		l.im.parts = append(l.im.parts, part{s.Name, l.base[i], data, s.isCode()})
		switch {
		case s.Name == "__mcount_loc" || s.Name == "__patchable_function_entries":
			for ; len(data) >= 8; data = data[8:] {
				l.im.traced[le64(data)] = true
			}
		case s.Name == ".note.gnu.build-id" && len(data) >= 36:
			l.im.ModuleID = hex.EncodeToString(data[len(data)-20:])
		}
	}
}

func (l *moduleLoader) addSymbols() {
	l.im.Symbols = slices.Clone(l.kernel.Symbols)
	l.im.order = map[string][]uint64{}
	for _, s := range l.o.symbols {
		if s.isDefined() && l.base[s.section] != 0 {
			l.im.order[s.name] = append(l.im.order[s.name], l.address(s))
		} else if s.isDefined() {
			l.im.order[s.name] = append(l.im.order[s.name], 0)
		}
		if !s.isDefined() || s.isLocal() || l.base[s.section] == 0 {
			continue
		}
		kind := byte('d')
		if l.o.sections[s.section].isCode() {
			kind = 't'
		}
		if s.global {
			kind -= 'a' - 'A'
		}
		at := l.address(s)
		l.im.Symbols = append(l.im.Symbols, Symbol{Name: s.name, Type: kind, Addr: at})
		if s.function {
			l.im.sizes[at] = int(s.size)
		}
	}
	sort.SliceStable(l.im.Symbols, func(a, b int) bool { return l.im.Symbols[a].Addr < l.im.Symbols[b].Addr })
	l.im.byName = make(map[string][]int, len(l.im.Symbols))
	for n, s := range l.im.Symbols {
		l.im.byName[s.Name] = append(l.im.byName[s.Name], n)
	}
}

// InModule reports whether an address is one of the module that was loaded.
func (im *Image) InModule(addr uint64) bool { return im.Module != "" && addr >= moduleBase }

// InOthers reports whether an address stands for what another module exports.
func (im *Image) InOthers(addr uint64) bool {
	return im.Module != "" && addr >= foreignBase && addr < moduleBase
}

// sameSide keeps of symbols those of the module, or those of the kernel: livepatch
// counts them for each by itself.
func (im *Image) sameSide(list []int, addr uint64) []int {
	if im.Module == "" {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(i int) bool { return im.InModule(im.Symbols[i].Addr) != im.InModule(addr) })
}

// ModulePosition reports how livepatch is to look up a name of the module that must mean
// addr, as Position does: it counts in the order of the module's own table. It fails if
// one of the name is not kept once the module has started, since livepatch counts that one
// only until then.
func (im *Image) ModulePosition(name string, addr uint64) (int, bool) {
	list := im.order[name]
	position := slices.Index(list, addr) + 1
	if len(list) == 1 && position == 1 {
		return 0, true
	}
	lost := slices.ContainsFunc(list, func(at uint64) bool { return at == 0 || im.Init(at) })
	return position, position > 0 && !lost
}

// needs are the modules that the kernel loads before one, by the names that it calls them
// by while they are loaded: they have no hyphens.
func (o *object) needs() []string {
	for i := range o.sections {
		if o.sections[i].Name != ".modinfo" {
			continue
		}
		for entry := range strings.SplitSeq(string(o.sections[i].data), "\x00") {
			if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
				return strings.Split(strings.ReplaceAll(list, "-", "_"), ",")
			}
		}
	}
	return nil
}

// AddNeeded notes what a module exports that the image's module needs: as long as one is
// loaded, so is the other. A name that it has twice is left out, since livepatch could
// not find the exported one.
func (im *Image) AddNeeded(name string, ko []byte) error {
	o, err := readObject(ko)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, s := range o.symbols {
		if s.isDefined() {
			count[s.name]++
		}
	}
	if im.exporters == nil {
		im.exporters = map[string]string{}
	}
	for symbol := range count {
		if exported, ok := strings.CutPrefix(symbol, "__ksymtab_"); ok && count[exported] == 1 {
			im.exporters[exported] = name
		}
	}
	return nil
}

// Exporter returns the needed module that exports a symbol, or "".
func (im *Image) Exporter(symbol string) string { return im.exporters[symbol] }
