// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"os"
	"time"

	"skep/internal/cli"
)

// A screen holds the files that a master writes to. Progress erases the lines that it drew
// last, so everything else that is written to its terminal must pass through it.
type screen struct {
	stdout, stderr *os.File

	ours, program *os.File // both ends of a pseudoterminal, or nil
	passed        chan struct{}
}

// openScreen gives the master a pseudoterminal if it would otherwise share the terminal
// that progress is drawn on. If none can be opened, progress is not drawn.
func (w *watch) openScreen() *screen {
	s := &screen{stdout: os.Stdout, stderr: os.Stderr}
	if !w.progress.Terminal() {
		return s
	}
	var err error
	if s.ours, s.program, err = cli.OpenTerminal(os.Stderr); err != nil {
		w.progress.Hide()
		return s
	}
	s.stderr = s.program
	if isSameFile(os.Stdout, os.Stderr) {
		s.stdout = s.program
	}
	s.passed = make(chan struct{})
	go func() {
		defer close(s.passed)
		io.Copy(w.progress, s.ours) // ends with an error when the last process has closed it
	}()
	return s
}

func isSameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// close returns when all output of the master was passed on. A process that
// the master left behind may keep the terminal open forever.
func (s *screen) close() {
	if s.program == nil {
		return
	}
	s.program.Close()
	s.ours.SetReadDeadline(time.Now().Add(masterTimeout))
	<-s.passed
	s.ours.Close()
}
