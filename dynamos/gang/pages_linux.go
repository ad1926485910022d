// SPDX-License-Identifier: MIT

package gang

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pageSize is that of x86-64, the only processor that skep runs on.
const pageSize = 4096

// Bits of an entry of /proc/PID/pagemap, see proc_pid_pagemap(5).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
)

// mappingMax bounds the mappings whose pages are recorded. Larger ones are reservations, such as
// the shadow memory of a sanitizer, and to look through them would take longer than a turn.
const mappingMax = 64 << 30

// A span is a part of a process's address space.
type span struct{ begin, end uint64 }

// pages are those of one process.
type pages struct {
	pid   int
	spans []span
}

func (p *pages) size() (bytes uint64) {
	for _, s := range p.spans {
		bytes += s.end - s.begin
	}
	return bytes
}

// parseMappings returns the writable mappings that /proc/PID/maps lists: private data, and memory
// that processes share. The other ones are read from files, which have no need of swap.
func parseMappings(maps string) (spans []span) {
	for line := range strings.Lines(maps) {
		place, rest, _ := strings.Cut(line, " ")
		from, to, _ := strings.Cut(place, "-")
		begin, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err != nil || err2 != nil || len(rest) < 2 || rest[1] != 'w' || begin >= end || end-begin > mappingMax {
			continue
		}
		spans = append(spans, span{begin, end})
	}
	return spans
}

// findPages returns the parts of spans whose pages have one of these bits. pagemap is the file of
// the process, an entry of 8 bytes per page of its address space.
func findPages(pagemap io.ReaderAt, spans []span, bits uint64) (found []span, err error) {
	buffer := make([]byte, 64<<10)
	for _, s := range spans {
		for at := s.begin; at < s.end; {
			part := buffer[:min(uint64(len(buffer)), (s.end-at)/pageSize*8)]
			n, err := pagemap.ReadAt(part, int64(at/pageSize*8))
			if n < 8 {
				if err == nil || errors.Is(err, io.EOF) {
					break // the mapping is gone
				}
				return found, err
			}
			for entry := range slices.Chunk(part[:n&^7], 8) {
				if binary.LittleEndian.Uint64(entry)&bits != 0 {
					found = appendPage(found, at)
				}
				at += pageSize
			}
		}
	}
	return found, nil
}

// appendPage adds a page behind the last one.
func appendPage(spans []span, at uint64) []span {
	if n := len(spans); n > 0 && spans[n-1].end == at {
		spans[n-1].end += pageSize
		return spans
	}
	return append(spans, span{at, at + pageSize})
}

// readPages returns the pages of a process that are in memory. A process that has ended has none.
func readPages(pid int) (*pages, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return &pages{pid: pid}, ignoreEnded(err)
	}
	return (&pages{pid, parseMappings(string(maps))}).choose(pagePresent)
}

// choose returns those of the pages that have one of these bits now.
func (p *pages) choose(bits uint64) (*pages, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", p.pid))
	if err != nil {
		return &pages{pid: p.pid}, ignoreEnded(err)
	}
	defer f.Close()
	found, err := findPages(f, p.spans, bits)
	return &pages{p.pid, found}, ignoreEnded(err)
}

func ignoreEnded(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// spansPerCall is what process_madvise(2) and process_vm_readv(2) take at most.
const spansPerCall = 1024

// load has the kernel read the pages from swap, without waiting for each of them.
func (p *pages) load() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return ignoreEnded(err)
	}
	defer unix.Close(fd)
	for spans := range slices.Chunk(p.spans, spansPerCall) {
		if err := adviseSpans(fd, spans); err != nil {
			return ignoreEnded(err)
		}
	}
	return nil
}

// waitEvery is the distance of the pages that await waits for. Reads are done about in their
// order, so the pages between are there then.
const waitEvery = 1 << 20

// await waits until the pages that load asked for are in memory. It reads only some of them, since
// a page that is read counts as used in the next record, whether the gang used it or not.
func (p *pages) await() error {
	var remote []unix.RemoteIovec
	last := uint64(0)
	for i, s := range p.spans {
		for at := s.begin; at < s.end; at += pageSize {
			if end := i == len(p.spans)-1 && at+pageSize == s.end; end || at/waitEvery != last {
				remote = append(remote, unix.RemoteIovec{Base: uintptr(at), Len: 1})
				last = at / waitEvery
			}
		}
	}
	for list := range slices.Chunk(remote, spansPerCall) {
		local := bytes.Repeat([]byte{0}, len(list))
		vector := []unix.Iovec{{Base: &local[0]}}
		vector[0].SetLen(len(local))
		if _, err := unix.ProcessVMReadv(p.pid, vector, list, 0); err != nil && !errors.Is(err, unix.EFAULT) {
			return ignoreEnded(err)
		}
	}
	return nil
}
