// SPDX-License-Identifier: MIT

package tap

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The runner's own tests cover the results of reports. These tests cover output that only a
// hostile program prints.
func TestReader_bounds(t *testing.T) {
	var r Reader
	for i := range maxTests + 10 {
		r.AddLine(fmt.Sprintf("ok %d", i+1))
		r.AddLine("Bail out! again")
	}
	list := r.Finish("")
	last := list[len(list)-1]
	if last.Status != Failed || last.Reason != "more than 100000 tests reported" {
		t.Errorf("got %+v", last)
	}
	if len(list) > maxTests+tailMax+1 {
		t.Errorf("%d results are kept", len(list))
	}
}

func TestReader_complete(t *testing.T) {
	var r Reader
	for _, step := range []struct {
		line string
		want bool
	}{{"1..2", false}, {"ok 1 - a", false}, {"# a remark", false}, {"not ok 2 - b", true}} {
		r.AddLine(step.line)
		if r.Complete() != step.want {
			t.Errorf("after %q complete is %v", step.line, !step.want)
		}
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	r := Report{Out: &out}
	r.Ok("good", nil)
	r.Ok("bad", errors.New("line 1\r\nline 2\n"))
	r.Note("%d of %s", 1, "2%")
	r.Skip("absent", "no reason at all")
	r.Plan()
	want := "ok 1 - good\nnot ok 2 - bad\n# line 1\n# line 2\n# 1 of 2%\nok 3 - absent # SKIP no reason at all\n1..3\n"
	if out.String() != want || r.Failed != 1 {
		t.Errorf("%d failed, got %s", r.Failed, out.String())
	}
	var back Reader
	for line := range strings.Lines(out.String()) {
		back.AddLine(strings.TrimSuffix(line, "\n"))
	}
	list := back.Finish("exit status 1")
	if len(list) != 3 || list[0].Status != Passed || list[1].Status != Failed || list[2].Reason != "no reason at all" {
		t.Errorf("it is read as %+v", list)
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, out string
		status    int
		run       func(r *Report) error
	}{
		{"all pass", "ok 1 - a 1\n1..1\n", 0, func(r *Report) error { r.Check(true, "none", "a %d", 1); return nil }},
		{"one fails", "not ok 1 - a\n# why\nok 2 - b\n1..2\n", 1, func(r *Report) error {
			r.Check(false, "why", "a")
			r.Ok("b", nil)
			return nil
		}},
		{"it cannot go on", "ok 1 - a\nBail out! no wine; none at all\n", 2, func(r *Report) error {
			r.Ok("a", nil)
			return errors.New("no wine\nnone at all")
		}},
	} {
		var out strings.Builder
		if status := Run(&out, c.run); status != c.status || out.String() != c.out {
			t.Errorf("%s: status %d, %q", c.name, status, out.String())
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"1..2\nok 1 - a\nnot ok 2 - b # SKIP\n# x\n", "1..0 # SKIP none", "ok 2\r\n1..1\nBail out! x",
		"1..99999999999999999999", "ok\nok 1 # skip \x00\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Reader
		for line := range strings.SplitSeq(text, "\n") {
			r.AddLine(line)
		}
		list := r.Finish("")
		if len(list) == 0 {
			t.Fatal("a report came to nothing at all")
		}
		for _, test := range list {
			if test.Name == "" || test.Status == Skipped && test.Reason == "" {
				t.Fatalf("nameless or without a reason: %+v", test)
			}
		}
		if CountStatus(list, Failed) == 0 && !strings.Contains(text, "1..") {
			t.Fatalf("good without a plan: %q", text)
		}
	})
}
