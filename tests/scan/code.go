// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"sync"
)

// A span is a range of addresses; end is the first address after it.
type span struct{ start, end uint64 }

// frames caches the results of frameSpans, because a program in which leaks are planted is
// searched often.
var frames sync.Map

// findFunctions collects the ranges that the program itself declares as code: its function
// symbols, and its unwind data as readelf prints it.
func (s *scan) findFunctions(path string) error {
	bias := s.img.bias
	symbols, _ := s.img.file.Symbols() // a stripped program has none
	read, _ := frames.LoadOrStore(path, sync.OnceValues(func() ([]span, error) { return frameSpans(path) }))
	found, err := read.(func() ([]span, error))()
	if err != nil {
		return err
	}
	spans := slices.Clone(found)
	for _, symbol := range symbols {
		at := span{symbol.Value, symbol.Value + symbol.Size}
		if t := elf.ST_TYPE(symbol.Info); t != elf.STT_FUNC && t != elf.STT_GNU_IFUNC {
			continue
		} else if s.reasons.hasReason(symbol.Name) {
			s.data = append(s.data, span{at.start + bias, at.end + bias})
		} else {
			spans = append(spans, at)
		}
	}
	for i := range spans {
		spans[i].start += bias
		spans[i].end += bias
		s.starts = append(s.starts, spans[i].start, spans[i].end)
	}
	s.functions = mergeSpans(spans)
	return nil
}

// frameSpans reads the ranges of a program's unwind data. That of signal return
// code (augmentation S) starts one byte before the code, for unwinders.
func frameSpans(path string) ([]span, error) {
	cmd := exec.Command("readelf", "--debug-dump=frames,no-follow-links", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var spans []span
	var entry string // the CIE that is being read
	signal := map[string]bool{}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if words := strings.Fields(line); len(words) == 4 && words[3] == "CIE" {
			entry = words[0]
		} else if len(words) == 2 && words[0] == "Augmentation:" {
			signal[entry] = strings.Contains(words[1], "S")
		} else if s, ok := frameSpan(line, signal); ok {
			spans = append(spans, s)
		}
	}
	return spans, cmd.Wait()
}

// frameSpan reads "... FDE cie=00000000 pc=0000000000401000..0000000000401026".
func frameSpan(line string, signal map[string]bool) (s span, ok bool) {
	_, rest, ok := strings.Cut(line, " FDE cie=")
	if !ok {
		return s, false
	}
	var entry string
	if _, err := fmt.Sscanf(rest, "%s pc=%x..%x", &entry, &s.start, &s.end); err != nil {
		return s, false
	}
	if signal[entry] {
		s.start++
	}
	return s, s.end > s.start
}

func mergeSpans(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
		} else if s.end > s.start {
			out = append(out, s)
		}
	}
	return out
}

// inSpans reports whether addr is in one of the sorted spans.
func inSpans(spans []span, addr uint64) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].end > addr })
	return i < len(spans) && spans[i].start <= addr
}
