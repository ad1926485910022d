// SPDX-License-Identifier: MIT

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits of the plugin, see lab/count/tally.h.
const (
	markIntervals = 16
	countRanges   = 16
	countPoints   = 32
)

// A Range is a range of addresses whose instructions are counted separately. Ranges may
// overlap. High is the first address after the range.
type Range struct {
	Name      string // letters, digits, - and _
	Low, High uint64
}

// A Count makes QEMU's plugin (lab/count) count the instructions that each processor
// executes between the marks of include/skep/mark.h. It works only in the emulator, not
// under KVM.
type Count struct {
	Ranges []Range
	At     []uint64 // executions of these addresses are counted
	// Steady derives the guest's time from its number of instructions. So the
	// number of timer ticks does not depend on this computer's load. All the guest's
	// processors then run in turn in one thread.
	Steady bool
}

// qemuArgs returns QEMU's arguments for a count that is written to the file out.
func (c *Count) qemuArgs(out string) ([]string, error) {
	build, err := BuildDir()
	if err != nil {
		return nil, err
	}
	if len(c.Ranges) > countRanges || len(c.At) > countPoints {
		return nil, fmt.Errorf("the counter takes at most %d ranges and %d addresses, not %d and %d",
			countRanges, countPoints, len(c.Ranges), len(c.At))
	}
	plugin := filepath.Join(build, "lib", "skep-count.so")
	if !exists(plugin) {
		return nil, fmt.Errorf("the instruction counter %s is not built: run make", plugin)
	}
	text := "file=" + quoteOption(plugin) + ",out=" + quoteOption(out)
	for i, r := range c.Ranges {
		if !countName(r.Name) || r.Low >= r.High ||
			slices.ContainsFunc(c.Ranges[:i], func(o Range) bool { return o.Name == r.Name }) {
			return nil, fmt.Errorf("range %q %#x to %#x: want a name of its own of letters, digits, - and _, and an end above its start", r.Name, r.Low, r.High)
		}
		text += fmt.Sprintf(",range=%s:%x:%x", r.Name, r.Low, r.High)
	}
	for i, at := range c.At {
		if slices.Contains(c.At[:i], at) {
			return nil, fmt.Errorf("address %#x is to be counted twice", at)
		}
		text += fmt.Sprintf(",at=%x", at)
	}
	args := []string{"-plugin", text}
	if c.Steady {
		args = append(args, "-icount", "shift=0")
	}
	return args, nil
}

// slowFactor returns how many times longer a machine may take than a stock one. Measured
// were 4 times with the counter, and 6 times with a debug kernel.
func (m *Machine) slowFactor() float64 {
	factor := 1.0
	if m.Count != nil {
		factor *= 4
	}
	if strings.HasSuffix(m.Kernel, debugSuffix) {
		factor *= 8
	}
	return factor
}

// quoteOption doubles commas, which separate QEMU's options.
func quoteOption(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func countName(s string) bool {
	return s != "" && len(s) <= 64 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// Figures are the counts of an interval, summed over all its occurrences.
type Figures struct {
	Times    uint64 // how often the interval ended
	Open     bool   // the last occurrence has not ended and is not counted
	User     uint64 // instructions in the lower half of addresses
	Kernel   uint64 // instructions in the upper half
	Restarts uint64 // returns to the user instruction that was started last
	Entries  uint64 // transitions from user mode to the kernel

	Entry      map[uint64]uint64 // the transitions by their first kernel address
	EntryOther uint64            // transitions to addresses for which the counter has no room
	Range      map[string]uint64
	// Again holds the restarts in each range. Range counts their instructions too.
	Again map[string]uint64
	At    map[uint64]uint64
}

// An Interval is one mark number on one processor.
type Interval struct{ CPU, Number int }

// Counts are the figures of a guest.
type Counts struct {
	Figures map[Interval]*Figures
	// Lost counts, by processor, marks without a partner: two begins, or an end
	// without a begin. A program that migrates between processors causes them.
	Lost map[int]uint64
}

// Of returns the figures of an interval, summed over all processors. It returns an error
// if there are none or if they are incomplete, so that no test uses a wrong figure.
func (c Counts) Of(number int) (Figures, error) {
	sum := Figures{Entry: map[uint64]uint64{}, Range: map[string]uint64{}, Again: map[string]uint64{}, At: map[uint64]uint64{}}
	for i, f := range c.Figures {
		if i.Number != number {
			continue
		}
		if f.Open {
			return Figures{}, fmt.Errorf("interval %d of processor %d was never ended", number, i.CPU)
		}
		sum.add(f)
	}
	if sum.Times == 0 {
		return Figures{}, fmt.Errorf("interval %d was never begun and ended", number)
	}
	for cpu, n := range c.Lost {
		if n != 0 {
			return Figures{}, fmt.Errorf("processor %d met %d marks that do not fit: keep the program on one processor", cpu, n)
		}
	}
	return sum, nil
}

func (f *Figures) add(o *Figures) {
	f.Times += o.Times
	f.User += o.User
	f.Kernel += o.Kernel
	f.Restarts += o.Restarts
	f.Entries += o.Entries
	f.EntryOther += o.EntryOther
	for k, v := range o.Entry {
		f.Entry[k] += v
	}
	for k, v := range o.Range {
		f.Range[k] += v
	}
	for k, v := range o.Again {
		f.Again[k] += v
	}
	for k, v := range o.At {
		f.At[k] += v
	}
}

// countsMax limits the size of the file, which depends on the guest.
const countsMax = 16 << 20

// ReadCounts reads the file that the plugin wrote.
func ReadCounts(path string) (Counts, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Counts{}, fmt.Errorf("no counts: %w", err)
	}
	if info.Size() > countsMax {
		return Counts{}, fmt.Errorf("%s has %d bytes, more than counts ever have", path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Counts{}, err
	}
	c, err := parseCounts(string(text))
	if err != nil {
		return Counts{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func parseCounts(text string) (Counts, error) {
	c := Counts{Figures: map[Interval]*Figures{}, Lost: map[int]uint64{}}
	body, ok := strings.CutPrefix(text, "skep-count 1\n")
	if !ok {
		return c, errors.New("does not begin with the line \"skep-count 1\"")
	}
	body, ok = strings.CutSuffix(body, "end\n")
	if !ok || (body != "" && !strings.HasSuffix(body, "\n")) {
		return c, errors.New("does not end with the line \"end\"")
	}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		if body == "" {
			break
		}
		what, err := c.parseLine(strings.Split(line, " "))
		if err == nil && seen[what] {
			err = errors.New("stands there twice")
		}
		if err != nil {
			return Counts{}, fmt.Errorf("line %d, %q: %w", i+2, line, err)
		}
		seen[what] = true
	}
	return c, c.checkComplete(seen)
}

var errFigure = errors.New("not a figure")

// parseLine parses one line into c and returns the line's subject.
func (c Counts) parseLine(f []string) (string, error) {
	if len(f) < 3 || len(f) > 4 {
		return "", errFigure
	}
	cpu, err := parseNumber(f[0], 10, 16)
	value, err2 := parseNumber(f[len(f)-1], 10, 64)
	if err != nil || err2 != nil {
		return "", errFigure
	}
	if len(f) == 3 {
		if f[1] != "lost" {
			return "", errFigure
		}
		c.Lost[int(cpu)] = value
		return f[0] + " lost", nil
	}
	n, err := parseNumber(f[1], 10, 8)
	if err != nil || n >= markIntervals {
		return "", errFigure
	}
	i := Interval{int(cpu), int(n)}
	if c.Figures[i] == nil {
		c.Figures[i] = &Figures{Entry: map[uint64]uint64{}, Range: map[string]uint64{}, Again: map[string]uint64{}, At: map[uint64]uint64{}}
	}
	return strings.Join(f[:3], " "), c.Figures[i].setFigure(f[2], value)
}

func (f *Figures) setFigure(what string, value uint64) error {
	if kind, of, ok := strings.Cut(what, ":"); ok {
		return f.setFigureOf(kind, of, value)
	}
	switch what {
	case "times":
		f.Times = value
	case "open":
		if value > 1 {
			return errFigure
		}
		f.Open = value == 1
	case "user":
		f.User = value
	case "kernel":
		f.Kernel = value
	case "restarts":
		f.Restarts = value
	case "entries":
		f.Entries = value
	default:
		return errFigure
	}
	return nil
}

func (f *Figures) setFigureOf(kind, of string, value uint64) error {
	if kind == "range" && countName(of) {
		f.Range[of] = value
		return nil
	}
	if kind == "restarts" && countName(of) {
		f.Again[of] = value
		return nil
	}
	if kind == "entry" && of == "other" {
		f.EntryOther = value
		return nil
	}
	address, err := parseNumber(of, 16, 64)
	switch {
	case err == nil && kind == "entry":
		f.Entry[address] = value
	case err == nil && kind == "at":
		f.At[address] = value
	default:
		return errFigure
	}
	return nil
}

// parseNumber accepts a number only in the plugin's own spelling.
func parseNumber(s string, base, bits int) (uint64, error) {
	v, err := strconv.ParseUint(s, base, bits)
	if err == nil && strconv.FormatUint(v, base) != s {
		err = errFigure
	}
	return v, err
}

// checkComplete returns an error if the file lacks a line, as a damaged file does.
func (c Counts) checkComplete(seen map[string]bool) error {
	for i, f := range c.Figures {
		if _, ok := c.Lost[i.CPU]; !ok {
			return fmt.Errorf("processor %d lacks its line of lost marks", i.CPU)
		}
		for _, name := range []string{"times", "open", "user", "kernel", "restarts", "entries", "entry:other"} {
			if !seen[fmt.Sprintf("%d %d %s", i.CPU, i.Number, name)] {
				return fmt.Errorf("interval %d of processor %d lacks its figure %s", i.Number, i.CPU, name)
			}
		}
		for name, n := range f.Range {
			again, ok := f.Again[name]
			if !ok || again > n || again > f.Restarts {
				return fmt.Errorf("interval %d of processor %d counts %d in the range %s, and %d restarts there", i.Number, i.CPU, n, name, again)
			}
		}
		if len(f.Again) != len(f.Range) {
			return fmt.Errorf("interval %d of processor %d has restarts in a range without figures", i.Number, i.CPU)
		}
		sum := f.EntryOther
		for _, n := range f.Entry {
			sum += n
		}
		if sum != f.Entries {
			return fmt.Errorf("interval %d of processor %d has %d entries, and %d by address", i.Number, i.CPU, f.Entries, sum)
		}
	}
	return nil
}
