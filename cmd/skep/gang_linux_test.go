// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"skep/dynamos/gang"
	"skep/internal/cli"
)

func TestProgramsBetweenColons(t *testing.T) {
	for line, want := range map[string][][]string{
		"a":           {{"a"}},
		"a 1 : b":     {{"a", "1"}, {"b"}},
		"a : b : c":   {{"a"}, {"b"}, {"c"}},
		"a :b c: : d": {{"a", ":b", "c:"}, {"d"}},
		": a":         {{}, {"a"}},
		"a :":         {{"a"}, {}},
	} {
		if got := splitPrograms(strings.Fields(line)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestGangLinesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"gang run", "gangs are expected", cli.Usage},
		{"gang run true", "two gangs at least", cli.Usage},
		{"gang run --cgroup a", "two gangs at least", cli.Usage},
		{"gang run true :", "each side of a colon", cli.Usage},
		{"gang run --period 99ms true : true", "--period takes a time of 100ms", cli.Usage},
		{"gang run true : skep-none", "skep-none can't be run", exitMissing},
		{"gang run --paging most true : true", "is no kind of paging", cli.Usage},
		{"gang guard", "skep gang run alone", cli.Usage},
		{"gang runs", "did you mean run?", cli.Usage},
	} {
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(c.line)))
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.line, code, text, c.code, c.want)
		}
	}
}

func TestGangExitCodes(t *testing.T) {
	for _, c := range []struct {
		codes []int
		err   error
		want  int
	}{
		{[]int{0, 0}, nil, 0},
		{[]int{0, 137, 3}, nil, 137},
		{[]int{3}, &gang.RefusedError{Why: "no"}, cli.Refused},
		{nil, &gang.StartError{Path: "x", Err: os.ErrNotExist}, exitMissing},
		{nil, &gang.StartError{Path: "x", Err: os.ErrPermission}, exitCannot},
		{[]int{143}, errors.Join(fmt.Errorf("wait: %w", context.Canceled)), exitStopped},
		{[]int{143}, errors.New("the guard"), cli.Failed},
	} {
		if code, text := cli.ExitCode(gangError(c.codes, c.err)); code != c.want {
			t.Errorf("%v, %v: %d %q, want %d", c.codes, c.err, code, text, c.want)
		}
	}
}
