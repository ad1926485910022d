// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"skep/o2g/launch"
)

// Each endpoint has a line, and a second one if it uses the kernel engine.
func TestEndpointsText(t *testing.T) {
	user := launch.Endpoint{PID: 5, Program: "a", Engine: "user"}
	kernel := launch.Endpoint{PID: 6, Program: "b", Engine: "kernel", Module: &launch.Module{SoftirqBytes: 2000, StoppedReading: 3}}
	const heading, module = "PID  PROGRAM  ENGINE", "PID  PROGRAM  SOFTIRQ"
	for _, c := range []struct {
		list   []launch.Endpoint
		lines  string // the first words of each
		module bool
	}{
		{nil, "no", false},
		{[]launch.Endpoint{user}, "PID 5", false},
		{[]launch.Endpoint{user, kernel}, "PID 5 6 PID 6", true},
	} {
		out := printedBy(t, &os.Stdout, func() {
			if err := showEndpoints(c.list); err != nil {
				t.Error(err)
			}
		})
		var first []string
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); len(words) > 0 {
				first = append(first, words[0])
			}
		}
		if strings.Join(first, " ") != c.lines || strings.Contains(out, heading) != (c.list != nil) || strings.Contains(out, module) != c.module {
			t.Errorf("%+v:\n%s", c.list, out)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	out := os.Stdout
	os.Stdout = full
	err = showEndpoints([]launch.Endpoint{user})
	os.Stdout = out
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}
