// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"skep/tests/tap"
)

// A suite is one command and the format of its output.
type suite struct {
	name     string
	kind     string // tap, go, exit or fuzz
	lane     string // alone, machines or parallel
	resource string // of which there is one, or empty
	niceness int    // added to that of this process
	deadline time.Duration
	command  string
}

type status string

const (
	passed  = status(tap.Passed)
	failed  = status(tap.Failed)
	skipped = status(tap.Skipped)
	// Neither is counted.
	grouped  status = "group"    // a Go test with subtests
	unsteady status = "unsteady" // of a suite: failed, and passed when run again
)

// A result is the result of one test.
type result struct {
	suite, name string
	status      status
	reason      string   // why it was skipped, or the cause of a failure
	detail      []string // what the suite printed around a failure
	wide        bool     // a failure of many tests, reported under its own name
}

// whole is the name of a failure of the whole suite.
const suiteItself = tap.Itself

func readSuites(path string) ([]suite, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []suite
	seen := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		s, err := parseSuite(line)
		if err == nil && seen[s.name] {
			err = fmt.Errorf("suite %s is listed twice", s.name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		seen[s.name] = true
		list = append(list, s)
	}
	return list, nil
}

func parseSuite(line string) (suite, error) {
	f := strings.SplitN(strings.TrimLeft(line, " "), "\t", 4)
	if len(f) != 4 {
		return suite{}, fmt.Errorf("want name, kind, deadline, command; got %q", line)
	}
	kind, lane, _ := strings.Cut(f[1], ",")
	lane, resource, _ := strings.Cut(lane, ",")
	s := suite{name: f[0], kind: kind, lane: lane, resource: resource, command: strings.TrimSpace(f[3])}
	if s.name == "" || strings.ContainsAny(s.name, "/: ") {
		return s, fmt.Errorf("bad suite name %q", s.name)
	}
	if newParser(s) == nil {
		return s, fmt.Errorf("suite %s: unknown kind %q", s.name, s.kind)
	}
	if lane != alone && lane != machines && lane != parallel {
		return s, fmt.Errorf("suite %s: unknown lane %q", s.name, lane)
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(f[2]))
	if err != nil || seconds <= 0 {
		return s, fmt.Errorf("suite %s: bad deadline %q", s.name, f[2])
	}
	s.deadline = time.Duration(seconds) * time.Second
	if s.command == "" {
		return s, fmt.Errorf("suite %s has no command: define suite_%s", s.name, s.name)
	}
	return s, nil
}
