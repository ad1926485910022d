// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"skep/tests/wine/wineserver"
)

// A substrate runs programs by bee, on Linux or Wine.
type substrate struct {
	name   string
	native bool
	words  []string // before bee's own options
	env    []string
	nonce  uint64
	prefix string // Wine's prefix
}

func newSubstrate(o options) (*substrate, error) {
	guard := filepath.Join(o.bin, "bee-guard")
	switch o.substrate {
	case "native":
		return &substrate{name: "native", native: true}, nil
	case "linux":
		return &substrate{name: "linux", words: []string{guard, filepath.Join(o.bin, "bee")}}, nil
	case "wine":
		wine, err := exec.LookPath("wine")
		if err != nil {
			return nil, fmt.Errorf("no wine here; run: make setup")
		}
		return &substrate{name: "wine", prefix: o.prefix,
			words: []string{guard, wine, filepath.Join(o.bin, "bee.exe")},
			// Wine decodes arguments by the locale. --env sets the
			// guest's environment. WINEDEBUG keeps only messages that
			// explain a failed start.
			env: []string{"WINEPREFIX=" + o.prefix, "WINEDEBUG=-all,err+virtual", "DISPLAY=", "LC_ALL=C.UTF-8"}}, nil
	}
	return nil, fmt.Errorf("no substrate %q; there are native, linux and wine", o.substrate)
}

func (s *substrate) withNonce(nonce uint64) *substrate {
	other := *s
	other.nonce = nonce
	return &other
}

func (s *substrate) command(report string, program []string) []string {
	argv := append([]string{}, s.words...)
	argv = append(argv, "--report", report, "--nonce", fmt.Sprintf("%016x", s.nonce))
	if s.prefix != "" {
		// Wine adds Windows' own variables to the environment.
		argv = append(argv, "--clean-env")
		for _, v := range environment {
			argv = append(argv, "--env", v)
		}
	}
	return append(argv, program...)
}

// caseTimeout returns the time limit of a case. It is longer if starting takes longer.
func (s *substrate) caseTimeout(c testCase) time.Duration {
	if s == nil {
		return c.timeLimit()
	}
	if s.prefix != "" {
		return 3 * c.timeLimit()
	}
	return 2 * c.timeLimit()
}

func (s *substrate) start() error {
	for _, word := range s.words {
		if filepath.IsAbs(word) && !isReadable(word) {
			return fmt.Errorf("%s is missing; run: make", word)
		}
	}
	if s.prefix == "" {
		return nil
	}
	if err := os.MkdirAll(s.prefix, 0o755); err != nil {
		return err
	}
	return wineserver.Start(s.env)
}

func (s *substrate) stop() {
	if s.prefix != "" {
		wineserver.Stop(s.env)
	}
}

// unsupported maps the name of a case to the reason why it is not expected to
// work on this substrate.
type unsupported map[string]string

// readTable reads lines "substrate: name of case: reason".
func readTable(path, substrate string) (unsupported, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	table := unsupported{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		parts := strings.SplitN(text, ": ", 3)
		if len(parts) != 3 || len(parts[2]) < 10 {
			return nil, fmt.Errorf("%s:%d: want 'substrate: case: reason'", path, n)
		}
		if parts[0] == substrate {
			table[parts[1]] = parts[2]
		}
	}
	return table, lines.Err()
}

// check returns an error for a name that no case has.
func (u unsupported) check(cases []testCase, all bool) error {
	if !all {
		return nil
	}
	known := map[string]bool{}
	for _, c := range cases {
		known[c.name] = true
	}
	for name := range u {
		if !known[name] {
			return fmt.Errorf("the table of unsupported programs names %q, which does not exist", name)
		}
	}
	return nil
}
