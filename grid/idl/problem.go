// SPDX-License-Identifier: MIT

package idl

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// problemsMax limits the errors that are printed, for a file that is not IDL.
const problemsMax = 20

// sourceMax is the length of the longest line that is shown.
const sourceMax = 400

// A position is a byte's offset, with its line and column.
type position struct {
	offset, line, column int
	file                 string // that the file includes; "" is the file itself
}

// A Problem is one error in a file.
type Problem struct {
	File         string // that the file includes; "" is the file itself
	Line, Column int    // from 1; columns are characters, a tab is one
	Text         string
	offset       int
	source       string // its line
}

// Problems is the error of a file.
type Problems struct {
	File string
	List []Problem
}

// Error is file:line:column: text, the line, and a caret below the place, for
// each problem.
func (p *Problems) Error() string {
	var b strings.Builder
	for i, q := range p.List {
		if i == problemsMax {
			fmt.Fprintf(&b, "%s: %d more errors are not shown\n", p.File, len(p.List)-i)
			break
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s\n", cmp.Or(q.File, p.File), q.Line, q.Column, q.Text)
		if len(q.source) > sourceMax {
			continue
		}
		fmt.Fprintf(&b, "  %s\n  %s^\n", cleanLine(q.source), blanksFor(q.source, q.Column-1))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *Problems) sorted() *Problems {
	sort.SliceStable(p.List, func(i, j int) bool { return p.List[i].offset < p.List[j].offset })
	return p
}

// cleanLine replaces control characters, so that a hostile file cannot control the terminal.
func cleanLine(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r == 0x7f || r == utf8.RuneError || (r >= 0x80 && r < 0xa0)) {
			return '?'
		}
		return r
	}, line)
}

// blanksFor returns blanks as wide as the first n characters of line.
func blanksFor(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
