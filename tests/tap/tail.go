// SPDX-License-Identifier: MIT

package tap

// A Tail holds the last lines of an output.
type Tail struct {
	Lines []string
}

const tailMax = 40

// Add appends a line and drops the oldest one if there are too many.
func (t *Tail) Add(text string) {
	if len(t.Lines) == tailMax {
		t.Lines = t.Lines[1:]
	}
	t.Lines = append(t.Lines, text)
}

// TakeLines returns the lines and forgets them.
func (t *Tail) TakeLines() []string {
	lines := t.Lines
	t.Lines = nil
	return lines
}
