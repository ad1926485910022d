// SPDX-License-Identifier: MIT

package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

type result struct {
	skip string   // reason
	why  []string // of a failure
}

// judgeCase runs one case. unsupported is the table's reason why it may fail, if any.
func judgeCase(o options, sub *substrate, c testCase, unsupported string) result {
	if c.missing != "" {
		return result{skip: c.missing}
	}
	native, err := executeCase(o, nil, c)
	if err != nil {
		return result{why: []string{err.Error()}}
	}
	if why := c.checkNative(native); len(why) > 0 {
		return result{why: why}
	}
	var why []string
	if sub.native {
		why = rerunOracle(o, c, native)
	} else {
		why = compareRuns(o, sub, c, native)
	}
	if unsupported == "" {
		return result{why: why}
	}
	if len(why) == 0 {
		return result{why: []string{"works, but the table of unsupported programs lists it: take the line out"}}
	}
	return result{skip: unsupported}
}

// checkNative checks the native run. A program that fails on plain Linux says nothing about
// bee.
func (c testCase) checkNative(native outcome) []string {
	if native.late {
		return []string{"the native run did not end within " + c.timeLimit().String() + " of an idle computer"}
	}
	for line := range strings.Lines(native.stdout) {
		if strings.HasPrefix(line, "BAD") {
			return []string{"the native run says: " + strings.TrimSpace(line)}
		}
	}
	if c.code >= 0 && native.code != c.code {
		return []string{fmt.Sprintf("the native run ends with %d, not %d", native.code, c.code)}
	}
	return nil
}

// rerunOracle runs the oracle a second time.
func rerunOracle(o options, c testCase, first outcome) []string {
	second, err := executeCase(o, nil, c)
	if err != nil {
		return []string{err.Error()}
	}
	return listDifferences(first, second)
}

func compareRuns(o options, sub *substrate, c testCase, native outcome) []string {
	nonce, err := newNonce()
	if err != nil {
		return []string{err.Error()}
	}
	sub = sub.withNonce(nonce)
	got, err := executeCase(o, sub, c)
	if err != nil {
		return []string{err.Error()}
	}
	if c.proof {
		native.stdout = fmt.Sprintf("%d\n", int64(nonce))
	}
	why := listDifferences(native, got)
	why = append(why, checkReport(got.report, nonce, c.file)...)
	if len(why) > 0 {
		why = append(why, tailLines("stderr", got.stderr, 12)...)
	}
	return why
}

func newNonce() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, err
	}
	// Positive, so that a program cannot take it for an error number.
	return binary.LittleEndian.Uint64(b[:])>>2 | 1, nil
}

func listDifferences(want, got outcome) []string {
	var why []string
	if got.late {
		why = append(why, "did not end within its time; killed")
	} else if want.code != got.code {
		why = append(why, fmt.Sprintf("exit code %d, natively %d", got.code, want.code))
	}
	if want.stdout != got.stdout {
		why = append(why, firstDifference(want.stdout, got.stdout)...)
	}
	return why
}

func firstDifference(want, got string) []string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	show := func(lines []string) string {
		if i >= len(lines) {
			return "(end of output)"
		}
		return fmt.Sprintf("%.200q", lines[i])
	}
	return []string{fmt.Sprintf("stdout differs in line %d (%d bytes, natively %d)", i+1, len(got), len(want)),
		"  natively: " + show(a), "  here:     " + show(b)}
}

func tailLines(name, text string, count int) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > count {
		lines = lines[len(lines)-count:]
	}
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, fmt.Sprintf("%s: %.300s", name, line))
	}
	return out
}

func isReadable(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
