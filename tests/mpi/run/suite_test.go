// SPDX-License-Identifier: MIT

package main

import (
	"slices"
	"strings"
	"testing"
)

// sideOf returns a side made of the ranks' outputs.
func sideOf(ranks ...string) side {
	s := side{outcome: map[string]string{}, complete: true}
	for _, text := range ranks {
		s.add(strings.ReplaceAll(text, ",", "\n"))
	}
	return s
}

// TestJudge: no test may be worse on O2G than on TCP; a skip counts as worse.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name     string
		tcp, o2g []string
		broken   []string
		good     bool
	}{
		{"the same", []string{"ok a,skip b,bad c"}, []string{"ok a,skip b,bad c"}, nil, true},
		{"better", []string{"skip a,bad b,ok c"}, []string{"ok a,ok b,ok c"}, nil, true},
		{"skips", []string{"ok a,ok b"}, []string{"skip a,ok b"}, []string{"a"}, false},
		{"skips on one rank", []string{"ok a", "ok a"}, []string{"ok a", "skip a"}, []string{"a"}, false},
		{"fails", []string{"ok a,skip b"}, []string{"bad a,bad b"}, []string{"a", "b"}, false},
		{"hangs", []string{"ok a"}, []string{"start a"}, []string{"a"}, false},
		{"never runs", []string{"ok a"}, []string{""}, []string{"a"}, false},
		{"nothing to compare with", []string{"bad a"}, []string{"bad a"}, nil, false},
	} {
		r := row{tcp: sideOf(c.tcp...), o2g: sideOf(c.o2g...)}
		r.judge()
		if !slices.Equal(r.broken, c.broken) || r.isGood() != c.good {
			t.Errorf("%s: broken %v, good %v: %s", c.name, r.broken, r.isGood(), r.failureReason())
		}
	}
}

// TestEnoughMessages: several ranks that sent no message over O2G are a failure.
func TestEnoughMessages(t *testing.T) {
	for _, c := range []struct {
		least, ranks, passed int
		messages             uint64
		want                 string
	}{
		{0, 1, 5, 0, ""},
		{0, 2, 5, 1, ""},
		{0, 2, 5, 0, "no message"},
		{1100, 1, 1100, 0, ""},
		{1100, 1, 1099, 0, "want 1100"},
		{1100, 3, 1099, 9, "want 1100"},
		{1100, 3, 1100, 0, "no message"},
	} {
		o := options{least: c.least}
		err := o.checkMessages(c.ranks, c.passed, c.messages)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
