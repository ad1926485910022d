// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/tests/wine/wineserver"
)

const warmStarts = 9

// A start holds one run's figures in milliseconds; -1 means that a figure is missing.
type start struct {
	entry, load, rewrite, wall float64
}

// benchEntry measures starts. Cold is the first start after the files have left
// the page cache (and, under Wine, with no wineserver); warm is the median of
// those that follow.
func (b *bench) benchEntry() error {
	defer wineserver.Stop(wineserver.Env(b.prefix))
	programs := [][]string{
		{filepath.Join(b.build, "conformance", "musl", "hello")},
		{filepath.Join(b.build, "conformance", "glibc", "hello")},
		{"/bin/busybox", "true"},
		{filepath.Join(b.build, "conformance", "go", "panics")},
	}
	fmt.Printf("%-16s %-7s %-5s %9s %9s %9s %9s\n", "ms", "side", "", "entry", "load", "rewrite", "wall")
	for _, s := range b.listSides() {
		for _, p := range programs {
			if err := b.startsOf(s, p); err != nil {
				return err
			}
		}
	}
	// The time that this Wine takes to start an empty program.
	empty := []string{filepath.Join(b.build, "bench", "windows", "empty.exe")}
	return b.startsOf(side{name: "win32", words: []string{"wine"}, wine: true}, empty)
}

func (b *bench) startsOf(s side, program []string) error {
	if s.wine {
		wineserver.Stop(wineserver.Env(b.prefix))
	}
	for _, path := range append([]string{program[0], b.binPath("bee"), b.binPath("bee.exe")}, s.words...) {
		evictFile(path)
	}
	var starts []start
	for range 1 + warmStarts {
		one, err := b.startOnce(s, program)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.name, program[0], err)
		}
		starts = append(starts, one)
	}
	name := filepath.Base(filepath.Dir(program[0])) + "/" + filepath.Base(program[0])
	b.printStart(name, s.name, "cold", starts[0])
	b.printStart(name, s.name, "warm", medianStart(starts[1:]))
	return nil
}

func (b *bench) startOnce(s side, program []string) (start, error) {
	report := filepath.Join(b.work, "report")
	os.Remove(report)
	argv := program
	if s.name == "linux" || s.name == "wine" {
		argv = append([]string{"--report", report}, program...)
	}
	cmd := b.makeCommand(s, argv...)
	cmd.Stderr = nil
	began := time.Now()
	err := cmd.Run()
	one := start{entry: -1, load: -1, rewrite: -1, wall: float64(time.Since(began).Microseconds()) / 1000}
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		return one, err
	}
	if len(argv) == len(program) {
		return one, nil
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return one, fmt.Errorf("no report: %w", err)
	}
	fields := map[string]*float64{"entry_us": &one.entry, "load_us": &one.load, "rewrite_us": &one.rewrite}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 2 && fields[words[0]] != nil {
			us, _ := strconv.ParseFloat(words[1], 64)
			*fields[words[0]] = us / 1000
		}
	}
	return one, nil
}

func medianStart(starts []start) start {
	pick := func(get func(start) float64) float64 {
		var list []float64
		for _, s := range starts {
			list = append(list, get(s))
		}
		return medianOf(list)
	}
	return start{
		entry:   pick(func(s start) float64 { return s.entry }),
		load:    pick(func(s start) float64 { return s.load }),
		rewrite: pick(func(s start) float64 { return s.rewrite }),
		wall:    pick(func(s start) float64 { return s.wall }),
	}
}

func (b *bench) printStart(program, side, state string, s start) {
	show := func(ms float64) string {
		if ms < 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", ms)
	}
	fmt.Printf("%-16s %-7s %-5s %9s %9s %9s %9s\n", program, side, state, show(s.entry), show(s.load), show(s.rewrite), show(s.wall))
	b.writeRecord("result bench=bee_entry program=%s side=%s state=%s entry_ms=%s load_ms=%s rewrite_ms=%s wall_ms=%s",
		program, side, state, show(s.entry), show(s.load), show(s.rewrite), show(s.wall))
}

// evictFile asks the kernel to drop the file's pages from the page cache. An error is
// ignored: the cold start is then warmer than its name says, but not wrong.
func evictFile(path string) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	const dontNeed = 4
	syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0)
}
