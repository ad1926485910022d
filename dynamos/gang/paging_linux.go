// SPDX-License-Identifier: MIT

package gang

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/cgroup"
)

// Paging says what is done about memory between two turns, after "Adaptive Memory Paging for
// Efficient Gang Scheduling of Parallel Applications" (Ryu, Pachapurkar, Fong, IPDPS 2004).
type Paging struct {
	Selective  bool // the gang that runs keeps its pages as long as another one has some
	Aggressive bool // the gang that has stopped is paged out at once, as much as the next one needs
	Adaptive   bool // the pages that a gang had when it stopped are paged in before it runs
}

// ParsePaging parses words with commas between them.
func ParsePaging(text string) (p Paging, err error) {
	for word := range strings.SplitSeq(text, ",") {
		switch word {
		case "selective":
			p.Selective = true
		case "aggressive":
			p.Aggressive = true
		case "adaptive":
			p.Adaptive = true
		case "all":
			p = Paging{true, true, true}
		case "none":
		default:
			return p, fmt.Errorf("%q is no kind of paging: there are selective, aggressive, adaptive, all and none", word)
		}
	}
	return p, nil
}

// A pager moves pages between two turns, while no gang runs.
type pager struct {
	Paging
	root    string // of the hierarchy
	groups  []*group
	records [][]*pages // of each gang: those that it had when it stopped
}

// open refuses groups whose memory the kernel does not account for, and notes their protection:
// of the groups that skep made, or of the others.
func (p *pager) open(ours bool) error {
	p.records = make([][]*pages, len(p.groups))
	if p.Paging == (Paging{}) {
		return nil
	}
	for _, g := range p.groups {
		if g.ours != ours {
			continue
		}
		parent := filepath.Dir(g.dir)
		low, err := cgroup.Value(g.dir, "memory.low", "")
		if errors.Is(err, fs.ErrNotExist) && parent == p.root && cgroup.Write(parent, "cgroup.subtree_control", "+memory") == nil {
			low, err = cgroup.Value(g.dir, "memory.low", "")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return refusef("the kernel does not account for the memory of the control group %s: 'echo +memory >%s/cgroup.subtree_control', for which no process may be in %s itself", g.dir, parent, parent)
		}
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(g.dir, "memory.reclaim")); err != nil {
			return refusef("this kernel cannot page out a control group: --paging needs Linux 5.19 or newer")
		}
		if p.Selective {
			g.low = low
		}
	}
	return nil
}

// prepare gets the memory ready for a gang. It returns how many bytes it paged out and in.
func (p *pager) prepare(from, to int) (out, in uint64, err error) {
	if from >= 0 && p.Adaptive {
		if p.records[from], err = p.groups[from].readPages(); err != nil {
			return 0, 0, err
		}
	}
	if p.Selective {
		if err := p.protect(to); err != nil {
			return 0, 0, err
		}
	}
	need, list, err := p.findLacking(to)
	if err != nil {
		return 0, 0, err
	}
	if p.Aggressive {
		if out, err = p.pageOut(from, to, need); err != nil {
			return out, 0, err
		}
	}
	return out, in + sizeOf(list), loadAll(list)
}

// protect has the kernel take pages from other gangs than the one that runs, if it lacks memory
// (memory.low).
func (p *pager) protect(to int) (failed error) {
	for i, g := range p.groups {
		low := "0"
		if i == to {
			low = "max"
		}
		failed = errors.Join(failed, g.ignoreGone(cgroup.Write(g.dir, "memory.low", low)))
	}
	return failed
}

// findLacking returns the recorded pages of a gang that are in swap now, and how many bytes it will
// need. Without a record all that it has in swap counts.
func (p *pager) findLacking(to int) (need uint64, lacking []*pages, err error) {
	if p.records[to] == nil {
		return readBytes(p.groups[to].dir, "memory.swap.current"), nil, nil
	}
	for _, had := range p.records[to] {
		now, err := had.choose(pageSwapped)
		if err != nil {
			return 0, nil, err
		}
		lacking = append(lacking, now)
	}
	if !p.Adaptive {
		lacking = nil
	}
	return sizeOf(lacking), lacking, nil
}

func sizeOf(list []*pages) (bytes uint64) {
	for _, p := range list {
		bytes += p.size()
	}
	return bytes
}

// loadAll pages in: first all is asked for, such that the disk is kept busy, then waited for.
func loadAll(list []*pages) error {
	for _, p := range list {
		if err := p.load(); err != nil {
			return err
		}
	}
	for _, p := range list {
		if err := p.await(); err != nil {
			return err
		}
	}
	return nil
}

// pageOut makes room for the next gang: first from the gang that has stopped, whose turn is the
// furthest away, then from those before it.
func (p *pager) pageOut(from, to int, need uint64) (out uint64, err error) {
	room := p.room(p.groups[to].dir)
	n := len(p.groups)
	for i := range n {
		other := (max(from, 0) - i + n) % n
		if room+out >= need {
			return out, nil
		}
		if other == to {
			continue
		}
		dir := p.groups[other].dir
		before := readBytes(dir, "memory.current")
		err := cgroup.Write(dir, "memory.reclaim", strconv.FormatUint(need-room-out, 10))
		if p.groups[other].ignoreGone(err) != nil && !errors.Is(err, unix.EAGAIN) { // EAGAIN: it had less
			return out, err
		}
		out += before - min(before, readBytes(dir, "memory.current"))
	}
	return out, nil
}

// room returns how many bytes a group can get without a page of anybody.
func (p *pager) room(dir string) uint64 {
	room := freeBytes()
	for ; isWithin(dir, p.root) && dir != p.root; dir = filepath.Dir(dir) {
		text, err := cgroup.Value(dir, "memory.max", "")
		most, err2 := strconv.ParseUint(text, 10, 64)
		if err != nil || err2 != nil {
			continue // "max", or no controller
		}
		room = min(room, most-min(most, readBytes(dir, "memory.current")))
	}
	return room
}

// freeBytes returns the memory that nobody uses.
func freeBytes() uint64 {
	text, err := cgroup.Value("/proc", "meminfo", "MemFree:")
	kib, err2 := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	if err != nil || err2 != nil {
		return 0
	}
	return kib << 10
}

// readBytes returns the number in a file of a group, or 0 if there is none.
func readBytes(dir, name string) uint64 {
	text, err := cgroup.Value(dir, name, "")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(text, 10, 64) // 0 if it is "max"
	return n
}

// readPages returns the pages in memory of all processes of a group.
func (g *group) readPages() (list []*pages, err error) {
	g.eachProcess(func(pid int) {
		p, failed := readPages(pid)
		list, err = append(list, p), errors.Join(err, failed)
	})
	return list, err
}
