// SPDX-License-Identifier: MIT

package image

import (
	"sort"
	"strings"
)

const (
	// exits is a function that ends its calling task.
	exits = "do_exit"
	// dying calls it for a task that made an error. That can happen in any
	// function, and the engine tells of it by itself.
	dying = "make_task_dead"
)

// Exit reports whether a task may end inside of the function at an address, and
// by which calls: get_signal, do_group_exit, do_exit. Only calls that stand in
// the text are seen, none through pointers.
func (im *Image) Exit(addr uint64) (chain []string) {
	im.once.Do(im.readExits)
	for addr, ok := im.next[addr]; ok; addr, ok = im.next[addr] {
		chain = append(chain, im.describeAddr(addr))
	}
	return chain
}

// readExits notes for each function in which a task may end the first call of
// the shortest way there.
func (im *Image) readExits() {
	callers := im.findCallers()
	im.next = map[uint64]uint64{}
	var queue []uint64
	ends := map[uint64]bool{}
	for _, s := range im.Named(exits) {
		queue = append(queue, s.Addr)
		ends[s.Addr] = true
	}
	for _, s := range im.Named(dying) {
		ends[s.Addr] = true
	}
	for len(queue) > 0 {
		to := queue[0]
		queue = queue[1:]
		for _, from := range callers[to] {
			if _, seen := im.next[from]; !seen && !ends[from] && !im.isEntry(from) {
				im.next[from] = to
				queue = append(queue, from)
			}
		}
	}
}

// entries are the bounds of text that a processor enters from programs and
// interrupts. Tasks end on their way out of there, whoever was interrupted.
var entries = [][2]string{{"__noinstr_text_start", "__noinstr_text_end"}, {"__entry_text_start", "__entry_text_end"}}

func (im *Image) isEntry(addr uint64) bool {
	for _, e := range entries {
		from, to := im.byName[e[0]], im.byName[e[1]]
		if len(from) == 1 && len(to) == 1 && addr >= im.Symbols[from[0]].Addr && addr < im.Symbols[to[0]].Addr {
			return true
		}
	}
	return false
}

// findCallers finds who calls or jumps to each function. Text is not decoded: four
// bytes that are the distance to the beginning of a function just by chance
// are rare enough.
func (im *Image) findCallers() map[uint64][]uint64 {
	begins := map[uint64]bool{}
	for _, s := range im.Symbols {
		begins[s.Addr] = true
	}
	out := map[uint64][]uint64{}
	for _, p := range im.parts {
		if !p.code {
			continue
		}
		for i := 1; i+4 <= len(p.data); i++ {
			if op := p.data[i-1]; op != 0xe8 && op != 0xe9 {
				continue
			}
			at := p.start + uint64(i)
			to := at + 4 + uint64(int64(int32(le32(p.data[i:]))))
			if !begins[to] {
				continue
			}
			if from := im.functionAround(at); from != 0 && from != to {
				out[to] = append(out[to], from)
			}
		}
	}
	return out
}

// functionAround returns the function that an address lies in; what the compiler moved
// away from a function counts as a part of it.
func (im *Image) functionAround(addr uint64) uint64 {
	i := sort.Search(len(im.Symbols), func(i int) bool { return im.Symbols[i].Addr > addr })
	if i == 0 {
		return 0
	}
	s := im.Symbols[i-1]
	if of, moved := strings.CutSuffix(s.Name, ".cold"); moved {
		if list := im.byName[of]; len(list) == 1 {
			return im.Symbols[list[0]].Addr
		}
	}
	return s.Addr
}
