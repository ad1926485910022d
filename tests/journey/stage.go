// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/tests/tap"
)

// Time limits for an idle computer.
const (
	soon  = 20 * time.Second
	later = 60 * time.Second
)

var stop = errors.New("the journey can't go on")

// A stage holds one journey's directory and processes.
type stage struct {
	o      options
	tap    *tap.Report
	name   string
	dir    string
	actors []*actor
	open   []*os.File // inputs of actors
}

func newStage(o options, t *tap.Report, name string) *stage {
	// The path of a socket has at most 107 bytes, so build/ may be too deep.
	dir, err := os.MkdirTemp("", "skep-journey-")
	if err != nil {
		panic(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		panic(err)
	}
	return &stage{o: o, tap: t, name: name, dir: dir}
}

// close ends the processes that still run.
func (s *stage) close() {
	for i := len(s.actors) - 1; i >= 0; i-- {
		s.actors[i].kill()
	}
	for _, file := range s.open {
		file.Close()
	}
	if s.o.keep {
		fmt.Printf("# %s: %s\n", s.name, s.dir)
		return
	}
	os.RemoveAll(s.dir)
}

// runStep runs one test.
func (s *stage) runStep(name string, test func() error) bool {
	err := test()
	if err != nil {
		err = fmt.Errorf("%w%s", err, s.lastOutput())
	}
	s.tap.Ok(s.name+": "+name, err)
	return err == nil
}

// mustStep runs a step. Its failure ends the journey.
func (s *stage) mustStep(name string, test func() error) {
	if !s.runStep(name, test) {
		panic(stop)
	}
}

// lastOutput returns the last lines of hubs and agents, for a failure's details.
func (s *stage) lastOutput() string {
	var out strings.Builder
	for _, a := range s.actors {
		text := a.String()
		if len(text) > 1500 {
			text = text[len(text)-1500:]
		}
		fmt.Fprintf(&out, "\n[%s] %s", a.name, strings.TrimSpace(text))
	}
	return out.String()
}

func (s *stage) path(name ...string) string {
	return filepath.Join(append([]string{s.dir}, name...)...)
}

// tmpDir returns the folder for temporary files of commands.
func (s *stage) tmpDir() string { return s.path("tmp") }

func (s *stage) programPath(name string) string { return filepath.Join(s.o.programs, name) }

func (s *stage) skepPath() string { return filepath.Join(s.o.bin, "skep") }

// processesWith lists the processes that have word among their arguments.
func processesWith(word string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), word) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
