// SPDX-License-Identifier: MIT

package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress keeps a few lines at the bottom of a terminal up to date. If the output is no
// terminal it prints nothing. The lock guards the fields below it.
type Progress struct {
	out   io.Writer
	width int // 0: no terminal
	begin time.Time

	lock  sync.Mutex
	lines []string // set by Set
	drawn int      // number of lines on the screen
	last  time.Time
	over  bool // nothing is drawn any more
	mid   bool // another program has printed an incomplete line
}

const (
	progressAfter = time.Second // shorter operations show no progress
	progressEvery = 100 * time.Millisecond
)

// NewProgress returns a Progress that draws on f if f is a terminal.
func NewProgress(f *os.File) *Progress {
	return &Progress{out: f, width: terminalWidth(f), begin: time.Now()}
}

// Terminal reports whether Set shows anything.
func (p *Progress) Terminal() bool { return p.width > 0 }

// Hide stops drawing, because other programs write to the terminal.
func (p *Progress) Hide() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.erase()
	p.over = true
}

// Write prints a program's output above the lines. The lines are redrawn when the output
// ends with a newline.
func (p *Progress) Write(b []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	p.erase()
	n, err := p.out.Write(b)
	p.mid = b[len(b)-1] != '\n'
	p.redraw()
	return n, err
}

// Set replaces the lines. Calls in quick succession are drawn once.
func (p *Progress) Set(lines []string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.lines = append(p.lines[:0], lines...)
	now := time.Now()
	if p.width == 0 || p.over || p.mid || now.Sub(p.begin) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	p.draw(true)
}

// PrintAbove prints text above the lines, which stay at the bottom.
func (p *Progress) PrintAbove(text string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.erase()
	if p.mid {
		text = "\n" + text
	}
	io.WriteString(p.out, text)
	p.mid = false
	p.redraw()
}

// redraw draws the lines again that were erased to print above them.
func (p *Progress) redraw() {
	if p.drawn == 0 && p.width > 0 && !p.over && !p.mid && !p.last.IsZero() {
		p.draw(false)
	}
}

// Done removes the lines.
func (p *Progress) Done() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.erase()
	p.lines, p.over = nil, true
}

func (p *Progress) erase() {
	if p.drawn > 0 {
		io.WriteString(p.out, "\r"+strings.Repeat("\x1b[A", p.drawn)+"\x1b[J")
		p.drawn = 0
	}
}

// draw cuts lines to the terminal's width, because a wrapped line would take two rows.
func (p *Progress) draw(erase bool) {
	if erase {
		p.erase()
	}
	var text strings.Builder
	for _, line := range p.lines {
		cells := []rune(CleanText(line))
		text.WriteString(string(cells[:min(len(cells), p.width-1)]) + "\n")
	}
	io.WriteString(p.out, text.String())
	p.drawn = len(p.lines)
}
