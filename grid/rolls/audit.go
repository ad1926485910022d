// SPDX-License-Identifier: MIT

package rolls

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// An Audit says who did what in a roll, when, and by which keys. Each line has the digest of
// the one before it.
type Audit struct {
	Lines  []string `json:"lines"`  // as trust.ParseRecord reads them
	Signed []byte   `json:"signed"` // the operators' document that the first line is about
}

// Verify checks the lines, with the keys that a node has pinned, and returns the last one's
// digest. The keys prove who ordered the roll; the digests prove that no line was changed,
// left out or put in between since one saw the digest of a later line.
func (a *Audit) Verify(keys trust.State) (head string, err error) {
	keys.Audit = trust.Head{}
	keys, err = keys.FollowAudit(a.Lines, "", func(string) []byte { return a.Signed })
	return keys.Audit.Digest, err
}

// stepOf returns the step that a node reported last, as the audit log calls it; "": none.
func stepOf(m *roll.Member) string {
	switch p := m.Last.Phase; {
	case p == roll.Committed:
		return trust.VerbCommit
	case p >= roll.Leaving && (m.Chosen || m.Last.Bad != ""):
		return trust.VerbReverted
	case p >= roll.Loaded && p < roll.Committed:
		return trust.VerbApplied
	case m.Last.Refused != "":
		return trust.VerbRefused
	}
	return ""
}

// auditSteps adds what nodes did for the first time to the audit log, and reports whether it
// added a line. Repetitions are left out, because a node could fill the log with them.
func (r *record) auditSteps(now time.Time) (added bool) {
	if len(r.Audit) == 0 { // nobody signed the package, so each node refuses it
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(r.Roll.Nodes)) {
		step := stepOf(r.Roll.Nodes[name])
		who := url.PathEscape(name) // one word
		if key := who + " " + step; step != "" && !r.audited[key] {
			a := r.order
			a.Time, a.Who, a.What, a.Keys = now, who, step, nil
			r.addAudit(&a)
			added = true
		}
	}
	return added
}

func (r *record) addAudit(a *trust.Record) {
	a.After(r.last)
	r.last = a
	r.audited[a.Who+" "+a.What] = true
	r.Audit = append(r.Audit, a.String())
}

// beginAudit writes the first line, about the operators' document.
func (r *record) beginAudit(now time.Time) error {
	r.audited = map[string]bool{}
	if len(r.Signed) == 0 {
		return nil
	}
	a, err := trust.Describe(r.Signed, now)
	if err == nil {
		r.order = a
		r.addAudit(&a)
	}
	return err
}

// readAudit continues the log of an earlier run of the hub.
func (r *record) readAudit() error {
	r.audited = map[string]bool{}
	for _, line := range r.Audit {
		a, err := trust.ParseRecord(strings.Clone(line))
		if err != nil {
			return err
		}
		if r.last == nil {
			r.order = a
		}
		r.last = &a
		r.audited[a.Who+" "+a.What] = true
	}
	return nil
}

// Audit returns the audit log of an update's roll.
func (h *Hub) Audit(name string) (Audit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rolls[name]
	if r == nil {
		return Audit{}, ErrNoRoll
	}
	return Audit{slices.Clone(r.Audit), r.Signed}, nil
}
