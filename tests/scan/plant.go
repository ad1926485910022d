// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// leaks are instructions that leak, by kind. Except the first of each kind, bee refuses them
// or they occur in no program here.
var leaks = map[string][][]byte{
	"fs": {
		{0x64, 0x89, 0x02},             // mov %eax,%fs:(%rdx)
		{0xf3, 0x48, 0x0f, 0xae, 0xc0}, // rdfsbase %rax
		{0xf3, 0x48, 0x0f, 0xae, 0xd0}, // wrfsbase %rax
		{0x8e, 0xe0},                   // mov %eax,%fs
	},
	"gs": {
		{0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0},          // mov %gs:0x28,%rax
		{0xf3, 0x48, 0x0f, 0xae, 0xd8},                         // wrgsbase %rax
		{0x66, 0x66, 0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0}, // with idle prefixes
	},
	"cpuid":   {{0x0f, 0xa2}},
	"xgetbv":  {{0x0f, 0x01, 0xd0}},
	"syscall": {{0x0f, 0x05}, {0x48, 0x0f, 0x05}, {0x0f, 0x34}, {0xcd, 0x80}},
}

var siteKinds = map[string][]byte{
	"fs": {siteFS, siteFSInPlace}, "cpuid": {siteCPUID}, "xgetbv": {siteXGETBV}, "syscall": {siteSyscall},
}

// findPlanted plants leaks of one kind in the final text, one at a time, and checks that
// exactly these are found.
func findPlanted(o options, dir, kind string) error {
	img, err := finalImage(o, o.bee, dir, o.plant, nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, where := range []string{"function", "gap", "stub"} {
		for _, leak := range leaks[kind] {
			errs = append(errs, plantBytes(img, o, dir, kind, where, leak))
		}
		if kind == "gs" {
			errs = append(errs, plantSlots(img, o, dir, where))
		}
	}
	sites := sampleSites(img, kind)
	if len(sites) == 0 && siteKinds[kind] != nil {
		errs = append(errs, fmt.Errorf("%s has no site of this kind", o.plant))
	}
	for i, n := range sites {
		if err := leaveSite(img, o, dir, n); err != nil {
			errs = append(errs, fmt.Errorf("site %d left: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// plantSlots plants accesses to bee's own thread slots where bee wrote none. In a stub only an
// access with a register in its address counts as a leak.
func plantSlots(img *image, o options, dir, where string) error {
	slot := binary.LittleEndian.AppendUint32(nil, uint32(slices.Min(slices.Collect(maps.Keys(img.slots)))))
	indexed := append([]byte{0x65, 0x48, 0x8b, 0x84, 0x08}, slot...) // mov %gs:slot(%rax,%rcx),%rax
	err := plantBytes(img, o, dir, "gs", where, indexed)
	if where != "stub" {
		plain := append([]byte{0x65, 0x48, 0x8b, 0x04, 0x25}, slot...) // mov %gs:slot,%rax
		err = errors.Join(err, plantBytes(img, o, dir, "gs", where, plain))
	}
	return err
}

// sampleSites chooses the first, the middle and the last site of each kind.
func sampleSites(img *image, kind string) (chosen []int) {
	for _, k := range siteKinds[kind] {
		var all []int
		for i, s := range img.sites {
			if s.kind == k {
				all = append(all, i)
			}
		}
		if len(all) > 0 {
			chosen = append(chosen, all[0], all[len(all)/2], all[len(all)-1])
		}
	}
	return chosen
}

// leaveSite restores the original bytes of one site.
func leaveSite(img *image, o options, dir string, n int) error {
	p := img.sites[n]
	want := map[uint64]bool{}
	for _, s := range img.sites {
		if s.patch == p.patch && s.kind <= siteXGETBV {
			want[s.addr] = true
		}
	}
	at := img.bytesAt(p.patch, p.patchLen)
	ours := bytes.Clone(at)
	for _, s := range img.first {
		if s.holds(p.patch, p.patchLen) {
			copy(at, s.bytes[p.patch-s.addr:])
		}
	}
	defer copy(at, ours)
	// The site is not patched any more.
	left := *img
	left.sites = slices.DeleteFunc(slices.Clone(img.sites), func(s site) bool { return s.patch == p.patch })
	return checkHits(&left, o, dir, "", want)
}

// plantBytes writes an instruction to a place and fills the rest of the place with nops.
func plantBytes(img *image, o options, dir, kind, where string, leak []byte) error {
	place, err := findPlace(img, o, dir, where)
	if err != nil {
		return err
	}
	at := img.bytesAt(place.start, place.end-place.start)
	ours := bytes.Clone(at)
	copy(at, bytes.Repeat([]byte{0x90}, len(at)))
	copy(at, leak)
	defer copy(at, ours)
	if err := checkHits(img, o, dir, kind, map[uint64]bool{place.start: true}); err != nil {
		return fmt.Errorf("% x in a %s: %w", leak, where, err)
	}
	return nil
}

// checkHits checks that the hits are exactly these, and of this kind.
func checkHits(img *image, o options, dir, kind string, want map[uint64]bool) error {
	s, err := scanImage(img, o.plant, dir, tables{})
	if err != nil {
		return err
	}
	got := map[uint64]bool{}
	for _, h := range s.hits {
		got[h.addr] = true
		if kind != "" && h.kind != kind {
			return fmt.Errorf("found %v, not %s", h, kind)
		}
	}
	for addr := range want {
		if !got[addr] {
			return fmt.Errorf("not found at %#x", addr)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("found %v, want only %x", s.hits, slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// findPlace returns a function, a gap or a stub of 16 to 64 bytes without a patch.
func findPlace(img *image, o options, dir, where string) (span, error) {
	s, err := newScan(img, o.plant, dir, tables{})
	if err != nil {
		return span{}, err
	}
	var places []span
	switch where {
	case "function":
		places = functionSymbols(img)
	case "gap":
		for _, g := range s.gaps {
			places = append(places, g.span)
		}
	case "stub":
		places = stubSpans(img)
	}
	for _, p := range places {
		n := p.end - p.start
		if n >= 12 && n <= 64 && img.bytesAt(p.start, n) != nil && !img.overlaps(p) {
			return p, nil
		}
	}
	return span{}, fmt.Errorf("%s has no %s to plant a leak in", o.plant, where)
}

// stubSpans returns the stubs in order; each extends to the start of the next.
func stubSpans(img *image) (spans []span) {
	at := []uint64{img.stubs.end()}
	for _, p := range img.sites {
		if p.form != formInPlace {
			at = append(at, p.stub)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	for i := range len(at) - 1 {
		spans = append(spans, span{at[i], at[i+1]})
	}
	return spans
}

func functionSymbols(img *image) (spans []span) {
	symbols, _ := img.file.Symbols()
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			spans = append(spans, span{s.Value + img.bias, s.Value + s.Size + img.bias})
		}
	}
	return spans
}

func (img *image) overlaps(p span) bool {
	for _, s := range img.sites {
		if s.patch < p.end && s.patch+s.patchLen > p.start || s.cave != 0 && s.cave < p.end && s.cave+5 > p.start {
			return true
		}
	}
	return false
}

// findLeft loads a program by a bee whose rewriter skips all sites of one kind, and checks
// that they are found.
func findLeft(o options, dir, kind string) error {
	img, err := finalImage(o, o.leak, dir, o.plant, []string{"BEE_LEAK=" + kind})
	if err != nil {
		return err
	}
	s, err := scanImage(img, o.plant, dir, tables{})
	if err != nil {
		return err
	}
	found := 0
	for _, h := range s.hits {
		if h.kind == kind {
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("found %v, and none of %s", s.hits, kind)
	}
	return nil
}

// findTwin checks that an image in which one kind of site was left is not taken for the
// other host's, and is searched.
func findTwin(o options, dir, kind string) error {
	file, err := os.ReadFile(o.plant)
	if err != nil {
		return err
	}
	stored, err := storeImage(o, o.leak, dir, o.plant, file, []string{"BEE_LEAK=" + kind})
	if err != nil {
		return err
	}
	if twin, err := hasTwin(o, dir, o.plant, file, stored); twin || err != nil {
		return fmt.Errorf("an image with %s left is taken for the other host's: %v, %v", kind, twin, err)
	}
	return nil
}

// followTable checks that a table between functions hides no code that a branch reaches.
func followTable(dir string) error {
	text := segment{0x1000, bytes.Repeat([]byte{0x06}, 0x40)} // 06 is not an instruction
	copy(text.bytes, []byte{0xe9, 0x0b, 0, 0, 0})             // jmp 0x1010
	copy(text.bytes[0x10:], []byte{0xeb, 0x0e, 0x0f, 0x05})   // jmp 0x1020; not reached
	copy(text.bytes[0x20:], []byte{0x0f, 0x05, 0xc3, 0x0f, 0xa2})
	s := &scan{img: &image{file: &elf.File{}, texts: []segment{text}}, dir: dir,
		functions: []span{{0x1000, 0x1005}}, starts: []uint64{0x1000, 0x1005}}
	s.findGaps()
	if err := s.run(); err != nil {
		return err
	}
	if len(s.hits) != 1 || s.hits[0].addr != 0x1020 || s.hits[0].kind != "syscall" {
		return fmt.Errorf("found %v, want the system call at 0x1020 only", s.hits)
	}
	return nil
}
