// SPDX-License-Identifier: MIT

package rolls

import (
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// A hub that was started again continues the chain, and writes no step twice.
func TestRollAuditGoesOn(t *testing.T) {
	order := trust.Record{Time: time.Unix(1_800_000_000, 0), Who: trust.Operators, What: trust.VerbRoll, Line: "fix", Sequence: 7,
		Content: strings.Repeat("ab", 32), Keys: []string{"SHA256:A"}}
	order.After(nil)
	r := &record{Audit: []string{order.String()}, Roll: roll.NewHub(testPlan(t, "all"), []string{"a", "b c"})}
	if err := r.readAudit(); err != nil {
		t.Fatal(err)
	}
	r.Roll.Nodes["a"].Last.Phase = roll.Committed
	r.Roll.Nodes["b c"].Last.Refused = "no keys"
	now := time.Unix(1_800_000_060, 0)
	if !r.auditSteps(now) || len(r.Audit) != 3 {
		t.Fatalf("%q", r.Audit)
	}
	again := &record{Audit: r.Audit, Roll: r.Roll}
	if err := again.readAudit(); err != nil || again.auditSteps(now) {
		t.Errorf("%v: %q", err, again.Audit)
	}
	last := &order
	for i, want := range []string{"a committed", "b%20c refused"} {
		a, err := trust.ParseRecord(r.Audit[i+1])
		if err != nil || a.Before != last.Digest() || a.Who+" "+a.What != want || a.Sequence != 7 || len(a.Keys) > 0 {
			t.Errorf("%v: %+v", err, a)
		}
		last = &a
	}
	again.Audit[2] += " "
	if err := again.readAudit(); err == nil {
		t.Error("a damaged line is no error")
	}
}
