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
	"skep/tests/watch"
)

// Time limits for an idle computer.
const (
	soon  = 20 * time.Second
	later = 60 * time.Second
)

var stop = errors.New("the journey can't go on")

// A stage holds one journey's directory and processes.
type stage struct {
	*watch.Stage
	o    options
	tap  *tap.Report
	name string
	open []*os.File // inputs of processes
}

func newStage(o options, t *tap.Report, name string) *stage {
	s, err := watch.NewStage("journey")
	if err != nil {
		panic(err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "tmp"), 0o700); err != nil {
		panic(err)
	}
	return &stage{Stage: s, o: o, tap: t, name: name}
}

// close ends the processes that still run.
func (s *stage) close() {
	s.EndAll((*watch.Actor).KillAlone)
	for _, file := range s.open {
		file.Close()
	}
	if s.o.keep {
		fmt.Printf("# %s: %s\n", s.name, s.Dir)
		return
	}
	os.RemoveAll(s.Dir)
}

// runStep runs one test.
func (s *stage) runStep(name string, test func() error) bool {
	err := test()
	if err != nil {
		err = fmt.Errorf("%w%s", err, s.LastOutput())
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

func (s *stage) path(name ...string) string {
	return filepath.Join(append([]string{s.Dir}, name...)...)
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
