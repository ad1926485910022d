// SPDX-License-Identifier: MIT

package rolls

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// ByHub is who acted if a hub did by itself, such as a roll that stops at harm.
const ByHub = "hub"

// An Audit says who did what in a hub's rolls and with its nodes, when, and by which keys.
// Each line has the digest of the one before it.
type Audit struct {
	Lines []string `json:"lines"` // as trust.ParseRecord reads them
	// Contents are those of the packages of the update that was asked for.
	Contents []string `json:"contents"`
	// Documents are those that operators signed about it.
	Documents [][]byte `json:"documents"`
}

// Verify checks the lines, and with the keys that a node has pinned those about an update.
// It returns those, and how far the log was seen. The keys prove who ordered the roll; the
// digests prove that no line was changed, left out or put in between since one saw the log.
func (a *Audit) Verify(keys trust.State, name string) (about []string, seen trust.Seen, err error) {
	documents := map[string][]byte{}
	for _, text := range a.Documents {
		if said, err := trust.Describe(text, time.Time{}); err == nil {
			documents[documentKey(&said)] = text
		}
	}
	// The keys of earlier rolls of the same line may have been rotated since.
	proves := func(r *trust.Record) bool {
		return slices.Contains(a.Contents, r.Content) || len(a.Contents) == 0 && r.Line == name
	}
	keys.Audit = trust.Head{}
	_, err = keys.FollowAudit(a.Lines, "", func(r *trust.Record) ([]byte, bool) { return documents[documentKey(r)], proves(r) })
	if err != nil {
		return nil, seen, err
	}
	var tree trust.Tree
	for _, line := range a.Lines {
		tree.Add(line)
		if r, err := trust.ParseRecord(line); err == nil && (r.Line == name || proves(&r)) {
			about = append(about, line)
		}
	}
	return about, tree.Seen(), nil
}

// Continues checks that the log continues one that somebody has seen.
func (a *Audit) Continues(at trust.Seen) error {
	var tree trust.Tree
	for _, line := range a.Lines {
		tree.Add(line)
	}
	return at.Follow(tree.Seen(), tree.Proof(at.Lines))
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

// steps returns lines about what nodes did for the first time. Repetitions are left out,
// because a node could fill the log with them.
func (r *record) steps(now time.Time) (list []trust.Record) {
	if len(r.orders) == 0 { // nobody signed the package, so each node refuses it
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Roll.Nodes)) {
		step := stepOf(r.Roll.Nodes[name])
		who := url.PathEscape(name) // one word
		if step != "" && !r.audited[who+" "+step] {
			list = append(list, r.line(r.Roll.Nodes[name].Last.Package, now, who, step))
		}
	}
	return list
}

// stateVerbs are what the audit log says of a roll's new state.
var stateVerbs = map[roll.State]string{roll.Running: trust.VerbResumed, roll.Paused: trust.VerbPaused, roll.Stopped: trust.VerbStopped, roll.Done: trust.VerbDone}

// turn returns the line about the roll's new state, if that is not in the log yet.
func (r *record) turn(now time.Time) []trust.Record {
	s := r.Roll.State
	verb, ends := stateVerbs[s]
	if s == r.logged || !ends || s == roll.Running && r.logged != roll.Paused {
		return nil
	}
	return []trust.Record{r.line("", now, r.actor(), verb)}
}

func (r *record) actor() string {
	if r.by == "" {
		return ByHub
	}
	return r.by
}

// line returns a line about the package of this digest, or the first one of the roll.
func (r *record) line(digest string, now time.Time, who, what string) trust.Record {
	a, ok := r.orders[digest]
	if !ok {
		a, ok = r.orders[r.Spec.Package]
	}
	if !ok {
		a = trust.Record{Line: url.PathEscape(r.Spec.Name), Content: r.Spec.Package}
	}
	a.Time, a.Who, a.What, a.Keys = now.Round(0).UTC(), who, what, nil
	return a
}

// contents returns those that the lines about a roll have.
func (r *record) contents() map[string]bool {
	m := map[string]bool{}
	for _, a := range r.orders {
		m[a.Content] = true
	}
	if len(m) == 0 {
		m[r.Spec.Package] = true
	}
	return m
}

// readOrders describes the operators' documents, and stores them for those who verify.
func (r *record) readOrders(j *journal, now time.Time) (list []trust.Record, err error) {
	r.audited, r.orders = map[string]bool{}, map[string]trust.Record{}
	if len(r.Signed) == 0 {
		return nil, nil
	}
	for i, text := range append([][]byte{r.Signed}, r.Others...) {
		a, err := j.keep(text, now)
		if err != nil {
			return nil, err
		}
		r.orders[r.Spec.digests()[i]] = a
		list = append(list, a)
	}
	return list, nil
}

// beginAudit writes who began the roll, and a line about each document of operators.
func (r *record) beginAudit(j *journal, now time.Time, who string) error {
	orders, err := r.readOrders(j, now)
	if err != nil {
		return err
	}
	r.logged = r.Roll.State
	return j.add(append([]trust.Record{r.line("", now, who, trust.VerbBegun)}, orders...)...)
}

// resumeAudit continues the log of an earlier run of the hub. A roll that an older hub began
// has no line in it yet.
func (r *record) resumeAudit(j *journal, now time.Time) error {
	if _, err := r.readOrders(j, now); err != nil {
		return err
	}
	r.logged = r.Roll.State
	known := j.since(r.contents())
	if len(known) == 0 && j.why == nil {
		return r.beginAudit(j, now, ByHub)
	}
	for _, a := range known {
		r.audited[a.Who+" "+a.What] = true
	}
	return nil
}

// NodeEvent adds a line about a node of the hub, which has no package.
func (h *Hub) NodeEvent(who, what, node string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.journal.add(trust.Record{Time: h.now().Round(0).UTC(), Who: who, What: what, Line: url.PathEscape(node), Content: trust.NoContent})
}

// LastActs returns the last lines of the audit log, the newest first. Who wants to rely on them
// verifies the log, see Audit.
func (h *Hub) LastActs(n int) (list []trust.Record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list = []trust.Record{}
	for _, line := range slices.Backward(h.journal.lines[max(0, len(h.journal.lines)-n):]) {
		r, err := trust.ParseRecord(strings.Clone(line))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, h.journal.why
}

// Audit returns the audit log, and the documents about an update.
func (h *Hub) Audit(name string) (Audit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.journal.why != nil {
		return Audit{}, h.journal.why
	}
	a := Audit{Lines: slices.Clone(h.journal.lines), Contents: []string{}, Documents: [][]byte{}}
	contents := map[string]bool{}
	if r := h.rolls[name]; r != nil {
		contents = r.contents()
		a.Contents = slices.Sorted(maps.Keys(contents))
	}
	found := len(contents) > 0
	for _, line := range a.Lines {
		said, err := trust.ParseRecord(strings.Clone(line))
		if err != nil {
			return Audit{}, err
		}
		if said.Line != name && !contents[said.Content] {
			continue
		}
		found = true
		if said.Who != trust.Operators {
			continue
		}
		text, err := h.journal.document(&said)
		if err != nil {
			return Audit{}, err
		}
		if text == nil {
			return Audit{}, fmt.Errorf("the document about line %d of the audit log is lost", said.Number)
		}
		a.Documents = append(a.Documents, text)
	}
	if !found {
		return Audit{}, ErrNoRoll
	}
	return a, nil
}
