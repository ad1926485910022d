// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"skep/internal/cli"
)

// A pace says how often a command prints its table, and how many times.
type pace struct {
	interval time.Duration // 0: the default
	count    int           // 0: without end
}

func (p *pace) options(f *cli.Flags, with string) {
	f.Func("interval", with+"`SECONDS` between two tables (default 1)", func(s string) (err error) {
		p.interval, err = parseInterval(s)
		return err
	})
	f.Func("count", with+"end after `N` tables (default: at Ctrl-C)", func(s string) (err error) {
		p.count, err = parseCount(s)
		return err
	})
}

func (p *pace) every() time.Duration {
	if p.interval == 0 {
		return time.Second
	}
	return p.interval
}

func parseInterval(s string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || !(seconds >= 0.1 && seconds <= 3600) {
		return 0, errors.New("want seconds, from 0.1 to 3600")
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errors.New("want a number of tables, 1 or more")
	}
	return n, nil
}

// A display shows a table in place of the last one on a terminal, and below it elsewhere.
type display struct {
	columns, rows int // of the terminal; 0: none
}

func newDisplay(f *os.File) (d display) {
	d.columns, d.rows = cli.WindowSize(f)
	return d
}

// fit cuts lines to the terminal, whose last table it replaces. Elsewhere an empty line
// follows each table.
func (d *display) fit(text string) string {
	if d.columns == 0 {
		return text + "\n"
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if hidden := len(lines) - (d.rows - 1); hidden > 0 {
		lines = append(lines[:d.rows-2], fmt.Sprintf("... and %d more", hidden+1))
	}
	for i, line := range lines {
		cells := []rune(line)
		lines[i] = string(cells[:min(len(cells), d.columns-1)])
	}
	return "\x1b[H\x1b[J" + strings.Join(lines, "\n") + "\n"
}
