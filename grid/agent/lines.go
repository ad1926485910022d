// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Limits of a worker's output.
const (
	lineMax  = 1024 // bytes; the rest of a line is lost
	linesMax = 50   // per second: more are counted and saved, but not sent to the hub
)

// lines cuts what is written to it into lines. It blocks the writer while it saves a line and
// while its callback runs.
type lines struct {
	mu      sync.Mutex
	say     func(string)
	part    []byte
	cut     bool // the rest of this line is dropped
	second  time.Time
	said    int
	dropped int
	latest  string // the last line that bee itself wrote
	kept    *keeper
	where   string // how to see what was kept
}

func newLines(say func(string)) *lines { return &lines{say: say} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, rest, found := bytes.Cut(p, []byte("\n"))
		if room := lineMax - len(l.part); len(line) > room {
			line, l.cut = line[:room], true
		}
		l.part = append(l.part, line...)
		p = rest
		if found {
			l.endLine()
		}
	}
	return n, nil
}

func (l *lines) endLine() {
	text := strings.ToValidUTF8(strings.TrimRight(string(l.part), "\r"), "?")
	if l.cut {
		text += " ..."
	}
	l.part, l.cut = l.part[:0], false
	if strings.HasPrefix(text, "bee: ") {
		l.latest = text
	}
	if l.kept != nil {
		l.kept.add(text)
	}
	now := time.Now()
	if now.Sub(l.second) >= time.Second {
		l.reportDropped()
		l.second, l.said = now, 0
	}
	if l.said++; l.said > linesMax {
		l.dropped++
		return
	}
	l.say(text)
}

func (l *lines) reportDropped() {
	if l.dropped > 0 {
		l.say(fmt.Sprintf("(%d lines are not shown here, at most %d per second are passed on%s)", l.dropped, linesMax, l.where))
	}
	l.dropped = 0
}

// keepFile saves all lines from now on, until flush.
func (l *lines) keepFile(dir, session string) error {
	k, err := newKeeper(dir, session)
	if err == nil {
		l.kept, l.where = k, "; skep logs "+keptName(session)+" shows them"
	}
	return err
}

// flush passes on an unfinished line, and closes the saved output.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.endLine()
	}
	l.reportDropped()
	if l.kept != nil {
		l.kept.close()
		l.kept = nil
	}
}

// lastSentence is bee's last sentence, empty if there is none.
func (l *lines) lastSentence() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}
