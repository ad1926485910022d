// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An insn is one line of objdump.
type insn struct {
	addr uint64
	text string
}

// disassembleSegments decodes segments by objdump. objdump decodes linearly and starts again
// at each address of starts, where an instruction is known to begin.
func disassembleSegments(dir string, segments []segment, starts []uint64, each func(insn)) error {
	name := filepath.Join(dir, "final.o")
	if err := os.WriteFile(name, objectFile(segments, starts), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("objdump", "-d", "-z", "-w", "--no-show-raw-insn", name)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readLines(pipe, each)
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		return fmt.Errorf("objdump: %v: %s", err, stderr.String())
	}
	return nil
}

// readLines takes the lines that hold an instruction: "  401000:\tret".
func readLines(pipe interface{ Read([]byte) (int, error) }, each func(insn)) {
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		where, text, ok := strings.Cut(lines.Text(), ":\t")
		if !ok {
			continue
		}
		if addr, err := strconv.ParseUint(strings.TrimSpace(where), 16, 64); err == nil {
			each(insn{addr, strings.TrimSpace(text)})
		}
	}
}

// objectFile returns a minimal ELF file for objdump: a section for each segment, and a symbol
// for each start.
func objectFile(segments []segment, starts []uint64) []byte {
	const ehdr, shdr = 64, 64
	le := binary.LittleEndian
	names := []byte("\x00t\x00s\x00")
	symbols := make([]byte, 24)
	for _, addr := range slices.Compact(slices.Sorted(slices.Values(starts))) {
		for i, s := range segments {
			if s.holds(addr, 1) {
				symbols = le.AppendUint32(symbols, 3) // "s"
				symbols = append(symbols, 0, 0)       // a local symbol
				symbols = le.AppendUint16(symbols, uint16(i+1))
				symbols = le.AppendUint64(le.AppendUint64(symbols, addr), 0)
			}
		}
	}
	count := len(segments) + 3
	body := append(make([]byte, ehdr), make([]byte, shdr*count)...)
	section := func(i int, kind, flags, addr uint64, content []byte, link, info uint32, entry uint64) {
		h := body[ehdr+shdr*i:]
		le.PutUint32(h, 1)
		le.PutUint32(h[4:], uint32(kind))
		le.PutUint64(h[8:], flags)
		le.PutUint64(h[16:], addr)
		le.PutUint64(h[24:], uint64(len(body)))
		le.PutUint64(h[32:], uint64(len(content)))
		le.PutUint32(h[40:], link)
		le.PutUint32(h[44:], info)
		le.PutUint64(h[48:], 1)
		le.PutUint64(h[56:], entry)
		body = append(body, content...)
	}
	const progbits, symtab, strtab, allocExec = 1, 2, 3, 6
	for i, s := range segments {
		section(i+1, progbits, allocExec, s.addr, s.bytes, 0, 0, 0)
	}
	section(count-2, symtab, 0, 0, symbols, uint32(count-1), uint32(len(symbols)/24), 24)
	section(count-1, strtab, 0, 0, names, 0, 0, 0)
	copy(body, "\x7fELF\x02\x01\x01")
	le.PutUint16(body[16:], 2) // ET_EXEC: addresses are absolute
	le.PutUint16(body[18:], 62)
	le.PutUint32(body[20:], 1)
	le.PutUint64(body[40:], ehdr)
	le.PutUint16(body[52:], ehdr)
	le.PutUint16(body[58:], shdr)
	le.PutUint16(body[60:], uint16(count))
	le.PutUint16(body[62:], uint16(count-1))
	return body
}
