// SPDX-License-Identifier: MIT

package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress keeps a few lines at the bottom of a terminal up to date. Where the
// output is no terminal it prints nothing. The lock guards everything below it.
type Progress struct {
	out   io.Writer
	width int // 0: no terminal
	begin time.Time

	lock  sync.Mutex
	lines []string // as asked for
	drawn int      // lines that are on the screen
	last  time.Time
}

const (
	progressAfter = time.Second // shorter things show nothing
	progressEvery = 100 * time.Millisecond
)

// NewProgress draws on f when f is a terminal.
func NewProgress(f *os.File) *Progress {
	return &Progress{out: f, width: terminalWidth(f), begin: time.Now()}
}

// Terminal says whether Set shows anything.
func (p *Progress) Terminal() bool { return p.width > 0 }

// Set replaces the lines. Calls in quick succession are drawn once.
func (p *Progress) Set(lines []string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.lines = append(p.lines[:0], lines...)
	now := time.Now()
	if p.width == 0 || now.Sub(p.begin) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	p.draw(true)
}

// Above prints text over the lines, which stay at the bottom.
func (p *Progress) Above(text string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.erase()
	io.WriteString(p.out, text)
	if p.drawn == 0 && p.width > 0 && !p.last.IsZero() {
		p.draw(false)
	}
}

// Done takes the lines away.
func (p *Progress) Done() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.erase()
	p.lines = nil
}

func (p *Progress) erase() {
	if p.drawn > 0 {
		io.WriteString(p.out, "\r"+strings.Repeat("\x1b[A", p.drawn)+"\x1b[J")
		p.drawn = 0
	}
}

// draw cuts lines to the width: a wrapped one would break the count.
func (p *Progress) draw(erase bool) {
	if erase {
		p.erase()
	}
	var text strings.Builder
	for _, line := range p.lines {
		cells := []rune(Clean(line))
		text.WriteString(string(cells[:min(len(cells), p.width-1)]) + "\n")
	}
	io.WriteString(p.out, text.String())
	p.drawn = len(p.lines)
}
