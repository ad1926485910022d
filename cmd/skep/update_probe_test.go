// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/internal/cli"
)

// probedTwice counts more at each read.
type probedTwice struct{ reads uint64 }

func (p *probedTwice) Read() ([]update.Probed, error) {
	p.reads++
	one := update.Probed{Symbol: "vfs_read", Installer: "direct"}
	one.Calls, one.Errors, one.Sampled, one.P50, one.P99 = 100*p.reads, 7, 30, 1500, 9000
	one.Latency[10], one.Latency[12] = 20, 10
	return []update.Probed{one, {Symbol: "idle", Installer: "direct"}}, nil
}

func TestProbeText(t *testing.T) {
	over, text := make(chan error, 1), strings.Builder{}
	over <- nil
	if err := (&updateProbe{each: true}).follow(&text, over, &probedTwice{}); err != nil {
		t.Fatal(err)
	}
	want := `FUNCTION  CALLS  INSIDE  LOST  ERRORS  OUTSIDE  P50    P99  BY
vfs_read  100    0       0     7       0        1.5µs  9µs  direct
idle      0      0       0     0       0        -      -    direct

vfs_read
FROM   TO     CALLS
1µs    2µs    20     ########################################
2µs    4.1µs  0
4.1µs  8.2µs  10     ####################
`
	if trimLines(text.String()) != want {
		t.Errorf("%s", text.String())
	}
}

func TestProbeTellsItsTypes(t *testing.T) {
	want := "skep: probing, by the kernel's types (BTF):\n  int f(void)\n  void g(int n)\n"
	if got := probingText([]string{"int f(void)", "void g(int n)"}); got != want {
		t.Errorf("%q", got)
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// Without --each-call there are too few times for a histogram; --every prints in between; a
// program's failure is told, behind what was counted.
func TestProbeWhileAProgramRuns(t *testing.T) {
	over, text, p := make(chan error, 1), strings.Builder{}, &probedTwice{}
	time.AfterFunc(100*time.Millisecond, func() { over <- errors.New("exit status 3") })
	err := (&updateProbe{every: 5 * time.Millisecond}).follow(&text, over, p)
	if err == nil || !strings.Contains(err.Error(), "the program failed: exit status 3") {
		t.Error(err)
	}
	if got := text.String(); p.reads < 2 || strings.Count(got, "FUNCTION") != int(p.reads) || strings.Contains(got, "FROM") {
		t.Errorf("%d times: %s", p.reads, got)
	}
}

func TestProbeThatIsMistyped(t *testing.T) {
	for line, want := range map[string]string{
		"update probe":                              "a function of the kernel is expected",
		"update probe vfs_read --":                  "a program is expected after --",
		"update probe --for 0s vfs_read":            "--for and --every take times",
		"update probe --every -1s vfs_read":         "--for and --every take times",
		"update probe --for 1s vfs_read -- true":    "give either --for or a program",
		"update probe vfs_read --for 1s -- true -x": `"--for" comes behind a function`,
	} {
		if _, code, text := outputOf(t, strings.Fields(line)...); code != cli.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %s", line, code, text)
		}
	}
}
