// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// A segment holds bytes and their address in the running program.
type segment struct {
	addr  uint64
	bytes []byte
}

func (s segment) end() uint64 { return s.addr + uint64(len(s.bytes)) }

func (s segment) holds(addr, n uint64) bool {
	return addr >= s.addr && n <= uint64(len(s.bytes)) && addr-s.addr <= uint64(len(s.bytes))-n
}

// A site is one entry of bee's map: an instruction that was rewritten.
type site struct {
	addr, patch, stub, cave uint64
	patchLen                uint64
	kind, form              byte
}

// The values of enum bee_site_kind and enum bee_site_form.
const (
	siteSyscall = iota
	siteFS
	siteFSInPlace
	siteCPUID
	siteXGETBV
)

const formInPlace = 0

// An image is a program with the text that bee runs.
type image struct {
	file  *elf.File
	bias  uint64
	texts []segment // final text, one for each executable segment
	first []segment // the original text, from the file
	stubs segment
	sites []site
	slots map[int32]bool // displacements of bee's thread slots
	heads []span         // offsets of the ELF header and the tables of headers
}

const (
	headLen    = 200 // struct header of bee/core/cache.c
	mapHeadLen = 32  // HEADER_LEN of bee/rewrite/map.c
	siteLen    = 40
	slotFirst  = 0x1480 + 8*48 // BEE_SLOT(0) of bee/core/bee.h
	slotCount  = 7
	magic      = 0x32656863616365eb
)

func roundUp8(n uint64) uint64 { return (n + 7) &^ 7 }

func pageUp(n uint64) uint64 { return (n + 4095) &^ 4095 }

// readImage applies the contents of bee's cache to the program.
func readImage(program, stored []byte) (*image, error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	if len(stored) < headLen+sha256.Size {
		return nil, fmt.Errorf("the image has only %d bytes", len(stored))
	}
	body := stored[:len(stored)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], stored[len(body):]) {
		return nil, fmt.Errorf("the image's digest is wrong")
	}
	if sum := sha256.Sum256(program); !bytes.Equal(sum[:], body[16:48]) {
		return nil, fmt.Errorf("the image is of another program")
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(body[at:]) }
	if word(0) != magic {
		return nil, fmt.Errorf("the image's layout is unknown")
	}
	stubsAddr, stubsLen, mapLen, runsLen := word(160), word(168), word(176), word(184)
	if roundUp8(mapLen)+roundUp8(stubsLen)+runsLen != uint64(len(body)-headLen) {
		return nil, fmt.Errorf("the parts of the image do not make up its length")
	}
	rest := body[headLen:]
	img := &image{file: file, stubs: segment{stubsAddr, rest[roundUp8(mapLen):][:stubsLen]}}
	img.bias = word(192)
	if file.Type == elf.ET_EXEC && (img.bias != 0 || stubsAddr != pageUp(imageEnd(file))) {
		return nil, fmt.Errorf("the stubs are at %#x, not behind the program", stubsAddr)
	}
	img.readTexts(program)
	img.heads = headSpans(program)
	if err := img.readMap(rest[:mapLen]); err != nil {
		return nil, err
	}
	return img, img.applyRuns(rest[roundUp8(mapLen)+roundUp8(stubsLen):])
}

// imageEnd returns the end of the last loaded segment, at link addresses.
func imageEnd(file *elf.File) uint64 {
	var end uint64
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD {
			end = max(end, p.Vaddr+p.Memsz)
		}
	}
	return end
}

// headSpans returns the file's headers: ELF header, program and section headers.
func headSpans(program []byte) []span {
	le := binary.LittleEndian
	table := func(off uint64, size, count int) span {
		return span{off, off + uint64(le.Uint16(program[size:]))*uint64(le.Uint16(program[count:]))}
	}
	return []span{{0, uint64(le.Uint16(program[52:]))},
		table(le.Uint64(program[32:]), 54, 56), table(le.Uint64(program[40:]), 58, 60)}
}

func (img *image) readTexts(program []byte) {
	for _, p := range img.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			raw := program[p.Off:][:p.Filesz]
			img.first = append(img.first, segment{p.Vaddr + img.bias, raw})
			img.texts = append(img.texts, segment{p.Vaddr + img.bias, bytes.Clone(raw)})
		}
	}
}

func (img *image) readMap(raw []byte) error {
	if len(raw) < mapHeadLen {
		return fmt.Errorf("the map has only %d bytes", len(raw))
	}
	count := int(binary.LittleEndian.Uint32(raw[8:]))
	img.slots = map[int32]bool{}
	for i := range slotCount {
		img.slots[slotFirst+8*int32(i)] = true
	}
	if len(raw)-mapHeadLen < count*siteLen {
		return fmt.Errorf("the map has no room for its %d sites", count)
	}
	for i := range count {
		p := raw[mapHeadLen+i*siteLen:]
		word := func(at int) uint64 { return binary.LittleEndian.Uint64(p[at:]) }
		img.sites = append(img.sites, site{addr: word(0), patch: word(8), stub: word(16),
			cave: word(24), patchLen: uint64(p[34]), kind: p[35], form: p[36]})
	}
	return nil
}

// bytesAt returns the position of an address's byte in the final text or the stubs.
func (img *image) bytesAt(addr, n uint64) []byte {
	for _, s := range append(img.texts, img.stubs) {
		if s.holds(addr, n) {
			return s.bytes[addr-s.addr:][:n]
		}
	}
	return nil
}

func (img *image) applyRuns(raw []byte) error {
	for len(raw) > 0 {
		if len(raw) < 16 {
			return fmt.Errorf("a run of changed bytes is cut off")
		}
		addr, n := binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])
		raw = raw[16:]
		to := img.bytesAt(addr, n)
		if to == nil || roundUp8(n) > uint64(len(raw)) {
			return fmt.Errorf("a run of %d changed bytes at %#x is not text", n, addr)
		}
		copy(to, raw)
		raw = raw[roundUp8(n):]
	}
	return nil
}
