// SPDX-License-Identifier: MIT

//go:build programs

package moves

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// programsVar names a file with a program and its arguments on each line: programs that others
// wrote, each of which should take a few seconds. TestPrograms compares what each prints
// natively, under bee, and when it is moved movesOfEach times.
const programsVar = "SKEP_MOVE_PROGRAMS"

const movesOfEach = 3

// A trial is one run of a program.
type trial struct {
	code    int
	output  string
	outcome string
	took    time.Duration
	moves   int
	refused []string // what skep move said instead of moving it
}

var (
	verdictLine = regexp.MustCompile(`(?m)^ *--- (?:PASS|FAIL|SKIP): \S+|^.* \.\.\. (?:ok|FAIL|ERROR|skipped .*|expected failure)$`)
	seconds     = regexp.MustCompile(`\b[0-9.]+m?s\b`)
)

// outcomeOf returns what two runs of a program must have in common: the verdicts of a test program
// of Go or Python, else the output without times.
func outcomeOf(output string) string {
	if verdicts := verdictLine.FindAllString(output, -1); verdicts != nil {
		slices.Sort(verdicts) // of parallel tests
		return strings.Join(verdicts, "\n")
	}
	return seconds.ReplaceAllString(output, "TIME")
}

// differs says how a run differs from another.
func (a *trial) differs(b *trial) string {
	code := ""
	if a.code != b.code {
		code = fmt.Sprintf("exit code %d, not %d; ", a.code, b.code)
	}
	mine, other := strings.Split(a.outcome, "\n"), strings.Split(b.outcome, "\n")
	for _, line := range mine {
		if !slices.Contains(other, line) {
			before, _, _ := strings.Cut(a.output, line)
			return fmt.Sprintf("%s%q, after %q", code, line, before[max(0, len(before)-400):])
		}
	}
	if len(mine) != len(other) {
		return fmt.Sprintf("%s%d lines, not %d", code, len(mine), len(other))
	}
	return code
}

func TestPrograms(t *testing.T) {
	f, err := os.Open(os.Getenv(programsVar))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newScene(t)
	in := bufio.NewScanner(f)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		t.Run(filepath.Base(words[0]), func(t *testing.T) {
			s.t = t
			native := runNatively(t, words)
			still := s.tryProgram(words, nil)
			sum := sha256.Sum256([]byte(in.Text()))
			random := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), 0))
			var moments []time.Duration
			for range movesOfEach {
				moments = append(moments, time.Duration(random.Float64()*float64(still.took)))
			}
			slices.Sort(moments)
			moved := s.tryProgram(words, moments)
			t.Logf("native %v, under bee %v, moved %d times %v", native.took, still.took, moved.moves, moved.took)
			for _, line := range moved.refused {
				t.Logf("not moved: %s", line)
			}
			if how := still.differs(native); how != "" {
				t.Logf("under bee differs from native: %s", how)
			}
			if how := moved.differs(still); how != "" {
				t.Errorf("moved differs from unmoved: %s", how)
			}
		})
	}
}

func runNatively(t *testing.T, words []string) *trial {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = t.TempDir()
	began := time.Now()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return &trial{code: cmd.ProcessState.ExitCode(), outcome: outcomeOf(string(out)), took: time.Since(began).Round(time.Millisecond)}
}

// tryProgram runs a program under bee and moves it at the moments after its start.
func (s *scene) tryProgram(words []string, moments []time.Duration) *trial {
	s.t.Helper()
	j := s.begin("", []string{"--movable"}, words...)
	began, result := time.Now(), &trial{}
	for _, moment := range moments {
		s.await("its moment", func() bool { return time.Since(began) > moment || len(j.over) > 0 })
		if _, err := s.command("move", j.number); err == nil {
			result.moves++
		} else if j.state() == "running" {
			result.refused = append(result.refused, err.Error())
		}
	}
	result.code = j.end()
	result.output = j.out.String()
	if result.code > 128 {
		s.t.Logf("it ended with %d and said: %s", result.code, j.err.String())
	}
	result.outcome, result.took = outcomeOf(result.output), time.Since(began).Round(time.Millisecond)
	return result
}
