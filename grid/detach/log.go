// SPDX-License-Identifier: MIT

// Package detach keeps what is left of a master that no terminal waits for: its record, and its
// output in a log of bounded size. See docs/design/detach.md.
package detach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A log is a sequence of files of logPart bytes. The first and the last logParts are kept.
const (
	logPart  = 1 << 20
	logParts = 8
)

// A Log writes the output of a run. A full disk loses output, but does not stop the run.
type Log struct {
	dir string

	mu   sync.Mutex
	file io.WriteCloser
	part int
	size int
	lost int   // bytes, since the last that was written
	why  error // why they are lost
}

func partName(dir string, part int) string { return filepath.Join(dir, fmt.Sprintf("output.%d", part)) }

// OpenLog begins the log of a run in a directory of its own.
func OpenLog(dir string) (*Log, error) {
	l := &Log{dir: dir}
	return l, l.open()
}

func (l *Log) open() (err error) {
	l.file, err = os.OpenFile(partName(l.dir, l.part), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	return err
}

// Write never fails.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	if l.lost > 0 {
		b = append(fmt.Appendf(nil, "(%d bytes were here and are lost: %v)\n", l.lost, l.why), b...)
	}
	wrote, err := l.write(b)
	switch {
	case err == nil:
		l.lost, l.why = 0, nil
	case wrote < len(b)-n: // not even the sentence
		l.lost, l.why = l.lost+n, err
	default:
		l.lost, l.why = len(b)-wrote, err
	}
	return n, nil
}

func (l *Log) write(b []byte) (wrote int, err error) {
	for len(b) > 0 {
		if l.size == logPart {
			if err := l.turn(); err != nil {
				return wrote, err
			}
		}
		n, err := l.file.Write(b[:min(len(b), logPart-l.size)])
		l.size += n
		wrote += n
		if err != nil {
			return wrote, err
		}
		b = b[n:]
	}
	return wrote, nil
}

// turn begins the next part, and removes the oldest but the first.
func (l *Log) turn() error {
	next := &Log{dir: l.dir, part: l.part + 1}
	if err := next.open(); err != nil {
		return err
	}
	l.file.Close()
	l.file, l.part, l.size = next.file, next.part, 0
	if old := l.part - logParts; old > 0 {
		os.Remove(partName(l.dir, old))
	}
	return nil
}

// Close ends the log.
func (l *Log) Close() error { return l.file.Close() }

// followPoll is how often a reader looks for more.
const followPoll = 100 * time.Millisecond

// Follow writes a log to w from its beginning, and what is added to it, until the run has
// ended. It says where parts are missing.
func Follow(ctx context.Context, dir string, w io.Writer, ended func() bool) error {
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for part, at := 0, int64(0); ; {
		over := ended() // what was written before is read below
		next, err := nextPart(dir, part)
		if err != nil {
			return err
		}
		n, err := copyPart(partName(dir, part), at, w)
		if err != nil {
			return err
		}
		at += n
		switch {
		case next > 0:
			if next > part+1 {
				lost := int64(next-part-1)*logPart + logPart - at
				if _, err := fmt.Fprintf(w, "(%d bytes were here and are lost)\n", lost); err != nil {
					return err
				}
			}
			part, at = next, 0
			continue
		case over:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

// nextPart returns the first part after this one, or 0. This one is complete then.
func nextPart(dir string, part int) (int, error) {
	list, err := os.ReadDir(dir)
	var parts []int
	for _, e := range list {
		if text, ok := strings.CutPrefix(e.Name(), "output."); ok {
			if n, err := strconv.Atoi(text); err == nil && n > part {
				parts = append(parts, n)
			}
		}
	}
	if err != nil || len(parts) == 0 {
		return 0, err
	}
	return slices.Min(parts), nil
}

// copyPart copies a part from an offset on. One that was removed meanwhile has nothing.
func copyPart(name string, at int64, w io.Writer) (int64, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, io.NewSectionReader(f, at, math.MaxInt64-at))
}
