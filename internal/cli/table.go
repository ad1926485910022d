// SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Table prints rows under a heading, each column as wide as its widest cell.
type Table struct {
	head []string
	rows [][]string
}

// NewTable returns a table with this heading.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row. Cells are formatted like by fmt.Print.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.head))
	for i := range row {
		if i < len(cells) {
			row[i] = CleanText(fmt.Sprint(cells[i]))
		}
	}
	t.rows = append(t.rows, row)
}

// Write prints the table; the last column is not padded.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, len(t.head))
	all := append([][]string{t.head}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// CleanText replaces what does not print in text of another machine, so that it can
// neither control the terminal nor, by marks of direction, change the order of what is
// beside it.
func CleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// PrintJSON prints a value as JSON for other programs.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// ParseBytes parses a size in powers of 1024 as people and bee write it, for example 512M.
func ParseBytes(s string) (uint64, error) {
	digits := strings.TrimRight(s, "KMGkmg")
	shift := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30}
	unit, ok := shift[strings.ToUpper(s[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || !ok || n > math.MaxUint64>>unit {
		return 0, fmt.Errorf("%q is not a size: write 512M or 2G", s)
	}
	return n << unit, nil
}

// FormatBytes formats a size for people, in powers of 1000.
func FormatBytes(n uint64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	format := "%.0f %cB"
	if value < 9.95 {
		format = "%.1f %cB"
	}
	return fmt.Sprintf(format, value, units[unit])
}

// FormatAgo formats how long ago something was.
func FormatAgo(when time.Time) string {
	if when.IsZero() {
		return "never"
	}
	d := time.Since(when)
	switch {
	case d < 5*time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return when.Local().Format(time.DateOnly)
}
