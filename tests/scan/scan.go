// SPDX-License-Identifier: MIT

package main

import (
	"debug/elf"
	"fmt"
	"slices"
	"sort"
)

// A hit is an instruction that must not be there.
type hit struct {
	addr uint64
	kind string // as leakKind, or "unreadable"
	text string
}

func (h hit) String() string { return fmt.Sprintf("%s at %#x: %s", h.kind, h.addr, h.text) }

// A gap is text that no function covers. If it contains bytes that are no instruction it is a
// table, which may contain code at the targets of branches.
type gap struct {
	span
	table bool
	hits  []hit
}

// A scan is one image being searched.
type scan struct {
	img       *image
	dir       string // for objdump's input
	reasons   tables
	data      []span // declared as data: headers, notes, symbols with a reason
	functions []span
	starts    []uint64
	gaps      []gap
	branches  [][2]uint64 // from, to: branches into gaps

	insns   int
	own     int    // bee's own accesses to gs:
	tables  uint64 // bytes of the gaps that are tables
	reached []hit  // in tables, where a branch leads
	hits    []hit
}

func newScan(img *image, path, dir string, reasons tables) (*scan, error) {
	s := &scan{img: img, dir: dir, reasons: reasons}
	if err := s.findFunctions(path); err != nil {
		return nil, err
	}
	s.findGaps()
	return s, nil
}

// findGaps adds the borders of sections and of bee's patches to the starts.
func (s *scan) findGaps() {
	edges := s.sectionEdges()
	s.data = append(s.data, s.headerSpans()...)
	for _, d := range s.data {
		edges = append(edges, d.start, d.end)
	}
	patched := map[uint64]bool{}
	for _, p := range s.img.sites {
		for a := p.patch + 1; a < p.patch+p.patchLen; a++ {
			patched[a] = true
		}
		for a := p.cave + 1; p.cave != 0 && a < p.cave+5; a++ {
			patched[a] = true
		}
	}
	s.starts = slices.DeleteFunc(append(s.starts, edges...), func(a uint64) bool { return patched[a] })
	for _, p := range s.img.sites {
		s.starts = append(s.starts, p.patch, p.patch+p.patchLen)
		if p.cave != 0 {
			s.starts = append(s.starts, p.cave, s.afterCave(p.cave+5))
		}
	}
	known := mergeSpans(append(slices.Clone(s.functions), s.data...))
	slices.Sort(edges)
	for _, text := range s.img.texts {
		for _, g := range uncoveredSpans(span{text.addr, text.end()}, known) {
			s.addGap(g, edges)
		}
	}
}

// afterCave skips the rest of a nop into which a jump was written: zeros of the nop's
// displacement, which are never executed.
func (s *scan) afterCave(addr uint64) uint64 {
	for b := s.img.bytesAt(addr, 1); len(b) > 0 && b[0] == 0; b = s.img.bytesAt(addr, 1) {
		addr++
	}
	return addr
}

func (s *scan) addGap(g span, edges []uint64) {
	for _, edge := range edges {
		if edge > g.start && edge < g.end {
			s.gaps = append(s.gaps, gap{span: span{g.start, edge}})
			g.start = edge
		}
	}
	s.gaps = append(s.gaps, gap{span: g})
}

func (s *scan) sectionEdges() (edges []uint64) {
	for _, section := range s.img.file.Sections {
		if section.Flags&elf.SHF_ALLOC != 0 {
			edges = append(edges, section.Addr+s.img.bias, section.Addr+section.Size+s.img.bias)
		}
	}
	return edges
}

// headerSpans returns the parts of the text segments that are the file's headers and notes
// (Go's linker places them there).
func (s *scan) headerSpans() (spans []span) {
	for _, p := range s.img.file.Progs {
		switch {
		case p.Type == elf.PT_LOAD && p.Off == 0 && p.Flags&elf.PF_X != 0:
			start := p.Vaddr + s.img.bias
			for _, part := range s.img.heads {
				spans = append(spans, span{start + part.start, start + part.end})
			}
		case p.Type == elf.PT_NOTE || p.Type == elf.PT_INTERP:
			spans = append(spans, span{p.Vaddr + s.img.bias, p.Vaddr + p.Filesz + s.img.bias})
		}
	}
	for _, section := range s.img.file.Sections {
		if section.Type == elf.SHT_NOTE && section.Addr != 0 {
			start := section.Addr + s.img.bias
			spans = append(spans, span{start, start + section.Size})
		}
	}
	return spans
}

// uncoveredSpans returns the parts of whole that none of the sorted spans covers.
func uncoveredSpans(all span, known []span) (out []span) {
	at := all.start
	for _, k := range known {
		if k.end <= at || k.start >= all.end {
			continue
		}
		if k.start > at {
			out = append(out, span{at, k.start})
		}
		at = k.end
	}
	if at < all.end {
		out = append(out, span{at, all.end})
	}
	return out
}

func (s *scan) gapOf(addr uint64) *gap {
	i := sort.Search(len(s.gaps), func(i int) bool { return s.gaps[i].end > addr })
	if i < len(s.gaps) && s.gaps[i].start <= addr {
		return &s.gaps[i]
	}
	return nil
}

// run decodes the final text and the stubs, then follows branches into tables.
func (s *scan) run() error {
	s.data = mergeSpans(s.data)
	slices.SortFunc(s.gaps, func(a, b gap) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	err := disassembleSegments(s.dir, append(slices.Clone(s.img.texts), s.img.stubs), s.starts, func(i insn) {
		if !inSpans(s.data, i.addr) {
			s.visitInstruction(i)
		}
	})
	if err != nil {
		return err
	}
	for i := range s.gaps {
		if g := &s.gaps[i]; !g.table {
			s.hits = append(s.hits, g.hits...)
		} else {
			s.tables += g.end - g.start
		}
	}
	return s.followBranches()
}

// judgeInstruction returns why an executed instruction is a leak, or "".
func (s *scan) judgeInstruction(i insn) string {
	if isUnreadable(i.text) {
		return "unreadable"
	}
	kind := leakKind(i.text)
	if kind == "gs" && s.isOwn(i) {
		s.own++
		return ""
	}
	return kind
}

// isOwn reports whether bee wrote this access to one of its thread slots.
func (s *scan) isOwn(i insn) bool {
	slot, ok := slotAccess(i.text)
	if !ok || !s.img.slots[slot] {
		return false
	}
	if s.img.stubs.holds(i.addr, 1) {
		return true
	}
	n := sort.Search(len(s.img.sites), func(n int) bool { return s.img.sites[n].addr >= i.addr })
	return n < len(s.img.sites) && s.img.sites[n].addr == i.addr && s.img.sites[n].form == formInPlace
}

func (s *scan) visitInstruction(i insn) {
	s.insns++
	if to, ok := branchTarget(i.text); ok && s.gapOf(to) != nil {
		s.branches = append(s.branches, [2]uint64{i.addr, to})
	}
	what := s.judgeInstruction(i)
	if what == "" {
		return
	}
	h := hit{i.addr, what, i.text}
	g := s.gapOf(i.addr)
	switch {
	case g == nil:
		s.hits = append(s.hits, h)
	case what == "unreadable":
		g.table = true
	default:
		g.hits = append(g.hits, h)
	}
}

// followBranches decodes tables again, from where branches lead into them up to
// an instruction that does not fall through.
func (s *scan) followBranches() error {
	reached := map[uint64]bool{}
	for more := true; more; {
		more = false
		for _, b := range s.branches {
			from, to := s.gapOf(b[0]), s.gapOf(b[1])
			// Bytes in a table are a branch only if they are reached.
			if (from == nil || !from.table) && to.table && !reached[b[1]] {
				reached[b[1]] = true
				more = true
			}
		}
		s.branches = nil
		if !more {
			break
		}
		if err := s.decodeTables(reached); err != nil {
			return err
		}
	}
	s.hits = append(s.hits, s.reached...)
	return nil
}

func (s *scan) decodeTables(reached map[uint64]bool) error {
	var parts []segment
	var starts []uint64
	for _, g := range s.gaps {
		if g.table {
			parts = append(parts, segment{g.start, s.img.bytesAt(g.start, g.end-g.start)})
		}
	}
	for addr := range reached {
		starts = append(starts, addr)
	}
	starts = append(starts, s.starts...)
	live := false
	s.reached = nil
	return disassembleSegments(s.dir, parts, starts, func(i insn) {
		live = live && s.gapOf(i.addr).start != i.addr || reached[i.addr]
		if !live {
			return
		}
		if to, ok := branchTarget(i.text); ok && s.gapOf(to) != nil && !reached[to] {
			s.branches = append(s.branches, [2]uint64{0, to})
		}
		if what := s.judgeInstruction(i); what != "" {
			s.reached = append(s.reached, hit{i.addr, what, i.text})
		}
		live = !endsFlow(i.text)
	})
}
