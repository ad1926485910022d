// SPDX-License-Identifier: MIT

package rolls

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
)

// A plan that cannot end, or whose leases are too long, is refused with its reason; the values
// at a limit are taken.
func TestPlanLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *roll.Plan, s *Spec)
		want   string
	}{
		"the default":           {func(p *roll.Plan, s *Spec) {}, ""},
		"no wave":               {func(p *roll.Plan, s *Spec) { p.Waves = nil }, "the last wave must be all"},
		"the last is not all":   {func(p *roll.Plan, s *Spec) { p.Waves[1].Percent = 99 }, "the last wave must be all"},
		"the longest time":      {func(p *roll.Plan, s *Spec) { p.Times.Slow = trialMax }, ""},
		"a longer one":          {func(p *roll.Plan, s *Spec) { p.Times.Slow = trialMax + 1 }, "is not possible"},
		"no time":               {func(p *roll.Plan, s *Spec) { p.Times.Dead = 0 }, "a time of 0s is not possible"},
		"a negative number":     {func(p *roll.Plan, s *Spec) { p.MaxUnavailable = -1 }, "out of range"},
		"no unavailable node":   {func(p *roll.Plan, s *Spec) { p.MaxUnavailable = 0 }, ""},
		"all calls may fail":    {func(p *roll.Plan, s *Spec) { p.Rules.Errors = 1000 }, ""},
		"more than all":         {func(p *roll.Plan, s *Spec) { p.Rules.Errors = 1001 }, "out of range"},
		"leases of 5 s":         {func(p *roll.Plan, s *Spec) { p.Times.Fresh = 2 * time.Second }, ""},
		"longer leases":         {func(p *roll.Plan, s *Spec) { p.Times.Fresh = 2*time.Second + 1 }, "within five seconds"},
		"another signed lease":  {func(p *roll.Plan, s *Spec) { s.Lease-- }, "leases must end within five seconds"},
		"a trial that suffices": {func(p *roll.Plan, s *Spec) { s.Trial = 12*time.Minute + 1 }, ""},
		"a trial that does not": {func(p *roll.Plan, s *Spec) { s.Trial = 12 * time.Minute }, "2 waves take 12m0s at least"},
	} {
		p := &roll.Plan{Waves: []roll.Wave{{Percent: 10}, {Percent: 100}}, Times: roll.DefaultTimes}
		s := &Spec{Trial: time.Hour, Lease: p.Times.Lease}
		c.change(p, s)
		if err := checkPlan(p, s); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A log has each text once in a row, and no more than its newest entries.
func TestNotesOfARoll(t *testing.T) {
	r := &record{}
	now := time.Unix(1, 0)
	for _, text := range []string{"one", "one", "two", "two", "one"} {
		r.note(now, text)
	}
	var got []string
	for _, e := range r.Log {
		got = append(got, e.Text)
	}
	if text := strings.Join(got, " "); text != "one two one" {
		t.Errorf("the log has %s", text)
	}
	for i := range logMax {
		r.note(now, fmt.Sprint(i))
	}
	if len(r.Log) != logMax || r.Log[0].Text != "0" || r.Log[logMax-1].Text != fmt.Sprint(logMax-1) {
		t.Errorf("%d entries, from %q to %q", len(r.Log), r.Log[0].Text, r.Log[len(r.Log)-1].Text)
	}
}
