// SPDX-License-Identifier: MIT

// Package image reads what a kernel's image tells of itself: its build-id, the
// names and addresses of its symbols, which functions can be traced, the types
// of their arguments, and their text. With it goes the gate: proof that a file
// compiled here is the one that the image was made of.
//
// All addresses are those that the kernel was linked for; it moves when it is
// started, and nothing here depends on where to.
package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"skep/internal/lazy"
	"skep/lab"
)

// MaxImage bounds a file that is taken for a kernel.
const MaxImage = 1 << 30

// An Image is an unpacked kernel. It does not change and may be shared.
type Image struct {
	BuildID  string // 40 hex digits
	Release  string // as uname -r
	Version  string // of Debian's package, or empty
	Compiler string // what CONFIG_CC_VERSION_TEXT says
	Symbols  []Symbol
	// Module is the one that WithModule has loaded, and ModuleID its build-id.
	Module, ModuleID string
	// Needs are the modules without which the kernel does not load that one.
	Needs     []string
	exporters map[string]string // of what AddNeeded was told: modules by symbol

	sizes map[uint64]int      // of the module's functions
	order map[string][]uint64 // of the module's table: where the symbols of a name are; 0: nowhere

	parts  []part
	byName map[string][]int
	traced map[uint64]bool
	types  *types

	sealing sync.Once // for sealed
	sealed  map[uint64]bool

	once sync.Once // for next
	next map[uint64]uint64
}

// A part is a section with contents.
type part struct {
	name  string
	start uint64
	data  []byte
	code  bool
}

// Open reads a kernel from a compressed image or a plain ELF file.
func Open(path string) (*Image, error) {
	data, err := readFile(path, MaxImage)
	if err != nil {
		return nil, err
	}
	im, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a readable kernel image: %w", path, err)
	}
	return im, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

// Read is Open for bytes.
func Read(data []byte) (*Image, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		var err error
		if data, err = lab.UnpackImage(data); err != nil {
			return nil, err
		}
	}
	im := &Image{}
	if err := im.readParts(data); err != nil {
		return nil, err
	}
	if err := im.readNotes(); err != nil {
		return nil, err
	}
	im.readBanner()
	if err := im.readSymbols(); err != nil {
		return nil, fmt.Errorf("its table of symbols: %w", err)
	}
	if err := im.readTraced(); err != nil {
		return nil, fmt.Errorf("its table of traced functions: %w", err)
	}
	var err error
	if im.types, err = readTypes(im.sectionData(".BTF")); err != nil {
		return nil, fmt.Errorf("its types (BTF): %w", err)
	}
	return im, nil
}

func (im *Image) readParts(data []byte) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 || f.ByteOrder != binary.LittleEndian {
		return errors.New("it is not for x86-64")
	}
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOBITS || s.Size == 0 {
			continue
		}
		if s.Offset > uint64(len(data)) || s.FileSize > uint64(len(data))-s.Offset {
			return fmt.Errorf("section %.40q lies outside of it", s.Name)
		}
		im.parts = append(im.parts, part{s.Name, s.Addr, data[s.Offset : s.Offset+s.FileSize], s.Flags&elf.SHF_EXECINSTR != 0})
	}
	return nil
}

func (im *Image) sectionData(name string) []byte {
	for _, p := range im.parts {
		if p.name == name {
			return p.data
		}
	}
	return nil
}

// Bytes returns n bytes at an address, if the image has them.
func (im *Image) Bytes(addr uint64, n int) ([]byte, bool) {
	rest, ok := im.bytesFrom(addr)
	if !ok || n < 0 || n > len(rest) {
		return nil, false
	}
	return rest[:n], true
}

// bytesFrom gives what a section holds from an address on.
func (im *Image) bytesFrom(addr uint64) ([]byte, bool) {
	for _, p := range im.parts {
		if addr >= p.start && addr-p.start < uint64(len(p.data)) {
			return p.data[addr-p.start:], true
		}
	}
	return nil, false
}

// Section names the section at an address; it is empty outside of all.
func (im *Image) Section(addr uint64) string {
	for _, p := range im.parts {
		if addr >= p.start && addr-p.start < uint64(len(p.data)) {
			return p.name
		}
	}
	return ""
}

// readNotes looks for the build-id among the kernel's notes.
func (im *Image) readNotes() error {
	const gnu, buildID = "GNU\x00", 3
	for b := im.sectionData(".notes"); len(b) >= 12; {
		nameLen, descLen := int(le32(b)), int(le32(b[4:]))
		kind := le32(b[8:])
		nameEnd := 12 + alignUp(nameLen, 4)
		if nameLen > 256 || descLen > 4096 || nameEnd+descLen > len(b) {
			return errors.New("its notes are damaged")
		}
		if kind == buildID && string(b[12:12+nameLen]) == gnu && descLen == 20 {
			im.BuildID = hex.EncodeToString(b[nameEnd : nameEnd+descLen])
			return nil
		}
		b = b[min(len(b), nameEnd+alignUp(descLen, 4)):]
	}
	return errors.New("it has no build-id")
}

// banner is what /proc/version says: release, builder, compiler and linker,
// and, in Debian's kernels, the version of the package.
var banner = lazy.Regexp(`Linux version ([0-9][^ ]{0,64}) \([^()\n]{0,200}\) \(([^\n]{1,200}), GNU ld [^\n]{0,300}\n`)
var debianVersion = lazy.Regexp(` Debian ([0-9][0-9A-Za-z.+~-]{0,60}) `)

func (im *Image) readBanner() {
	m := banner().FindSubmatch(im.sectionData(".rodata"))
	if m == nil {
		return
	}
	im.Release, im.Compiler = string(m[1]), string(m[2])
	if v := debianVersion().FindSubmatch(m[0]); v != nil {
		im.Version = string(v[1])
	}
}

// readTraced reads the list of places at which ftrace can step in.
func (im *Image) readTraced() error {
	start, stop := im.uniqueAddr("__start_mcount_loc"), im.uniqueAddr("__stop_mcount_loc")
	if start == 0 || stop <= start || (stop-start)%8 != 0 || stop-start > 64<<20 {
		return errors.New("there is none")
	}
	list, ok := im.Bytes(start, int(stop-start))
	if !ok {
		return errors.New("it lies outside of the image")
	}
	im.traced = make(map[uint64]bool, len(list)/8)
	for ; len(list) > 0; list = list[8:] {
		im.traced[le64(list)] = true
	}
	return nil
}

// Traced returns the place in a function at which ftrace steps in. It is the
// function's first instruction, or its second behind a landing pad.
func (im *Image) Traced(addr uint64) (uint64, bool) {
	for _, skip := range []uint64{0, 4} {
		if im.traced[addr+skip] {
			return addr + skip, true
		}
	}
	return 0, false
}

// Sealed reports whether a function's landing pad is taken away when the kernel
// starts on a processor with IBT: nobody had its address, and a call by a
// pointer faults from then on.
func (im *Image) Sealed(addr uint64) bool {
	im.sealing.Do(func() {
		im.sealed = map[uint64]bool{}
		for _, p := range im.parts {
			if p.name != ".ibt_endbr_seal" {
				continue
			}
			for at := 0; at+4 <= len(p.data); at += 4 {
				im.sealed[p.start+uint64(at)+uint64(int64(int32(le32(p.data[at:]))))] = true
			}
		}
	})
	return im.sealed[addr]
}

// Init reports whether an address is in what the kernel frees once it is up.
func (im *Image) Init(addr uint64) bool {
	return addr >= im.uniqueAddr("__init_begin") && addr < im.uniqueAddr("__init_end") ||
		strings.HasPrefix(im.Section(addr), ".init.") || im.Section(addr) == ".exit.text"
}

func alignUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
