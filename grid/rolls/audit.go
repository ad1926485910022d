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
	// Others are those of the lines that follow, if there are several packages.
	Others [][]byte `json:"others,omitempty"`
}

// document returns the document that a line is about.
func (a *Audit) document(content string) []byte {
	for _, text := range a.Others {
		if said, err := trust.Describe(text, time.Time{}); err == nil && said.Content == content {
			return text
		}
	}
	return a.Signed
}

// Verify checks the lines, with the keys that a node has pinned, and returns the last one's
// digest. The keys prove who ordered the roll; the digests prove that no line was changed,
// left out or put in between since one saw the digest of a later line.
func (a *Audit) Verify(keys trust.State) (head string, err error) {
	keys.Audit = trust.Head{}
	keys, err = keys.FollowAudit(a.Lines, "", a.document)
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
			a := r.orderOf(r.Roll.Nodes[name].Last.Package)
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

// orderOf returns the operators' order about a package, or about the first one.
func (r *record) orderOf(digest string) trust.Record {
	if a, ok := r.orders[digest]; ok {
		return a
	}
	return r.orders[r.Spec.Package]
}

// beginAudit writes a line about each document of operators.
func (r *record) beginAudit(now time.Time) error {
	r.audited, r.orders = map[string]bool{}, map[string]trust.Record{}
	if len(r.Signed) == 0 {
		return nil
	}
	for i, text := range append([][]byte{r.Signed}, r.Others...) {
		a, err := trust.Describe(text, now)
		if err != nil {
			return err
		}
		r.orders[r.Spec.digests()[i]] = a
		r.addAudit(&a)
	}
	return nil
}

// readAudit continues the log of an earlier run of the hub.
func (r *record) readAudit() error {
	r.audited, r.orders = map[string]bool{}, map[string]trust.Record{}
	digests := r.Spec.digests()
	for i, line := range r.Audit {
		a, err := trust.ParseRecord(strings.Clone(line))
		if err != nil {
			return err
		}
		if i < len(digests) {
			r.orders[digests[i]] = a
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
	return Audit{slices.Clone(r.Audit), r.Signed, r.Others}, nil
}
