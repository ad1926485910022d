// SPDX-License-Identifier: MIT

// Package picture draws the pictures of the pages: recorded terminal sessions, and figures
// as bars. It writes SVG without scripts or embedded fonts.
package picture

import (
	"strings"
	"unicode/utf8"
)

// A Screen is a terminal of unlimited height.
type Screen struct {
	Columns int

	rows     [][]rune
	row, col int
	escape   string
	cut      []byte // the first bytes of an incomplete character
}

// Write processes what a program writes to its terminal.
func (s *Screen) Write(b []byte) (int, error) {
	n := len(b)
	b = append(s.cut, b...)
	for len(b) > 0 && utf8.FullRune(b) {
		c, size := utf8.DecodeRune(b)
		s.put(c)
		b = b[size:]
	}
	s.cut = append([]byte(nil), b...)
	return n, nil
}

func (s *Screen) put(c rune) {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
	switch {
	case c == '\x1b' || s.escape != "":
		s.steer(c)
	case c == '\n':
		s.row++
	case c == '\r':
		s.col = 0
	case c < ' ':
	default:
		if s.col == s.Columns {
			s.row, s.col = s.row+1, 0
			s.put(c)
			return
		}
		for len(s.rows[s.row]) <= s.col {
			s.rows[s.row] = append(s.rows[s.row], ' ')
		}
		s.rows[s.row][s.col] = c
		s.col++
	}
}

// steer collects an escape sequence. It executes the two that skep writes, which move up and
// erase to the end; others are ignored.
func (s *Screen) steer(c rune) {
	s.escape += string(c)
	if len(s.escape) < 3 || c < '@' || c > '~' {
		return
	}
	switch s.escape {
	case "\x1b[A":
		s.row = max(0, s.row-1)
	case "\x1b[J":
		s.rows[s.row] = s.rows[s.row][:min(len(s.rows[s.row]), s.col)]
		s.rows = s.rows[:s.row+1]
	}
	s.escape = ""
}

// Text returns the text of the screen without empty rows at its end.
func (s *Screen) Text() []string {
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
