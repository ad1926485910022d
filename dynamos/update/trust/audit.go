// SPDX-License-Identifier: MIT

package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Record is one line of the audit log that the hub keeps: who did what, when, and by
// which keys. Each line contains the digest of the one before it.
type Record struct {
	Number   uint64 // from 1
	Before   string // digest of line Number-1, or zeros
	Time     time.Time
	Who      string // a node's name, or Operators
	What     string // one of the verbs below
	Line     string // of updates, or the fleet for VerbKeys
	Sequence uint64 // or the version for VerbKeys
	Content  string // digest of the package, or of the document for VerbKeys
	Keys     []string
}

// Operators is who acted if a signed document caused a line.
const Operators = "operators"

// NoContent stands where a line is about no package.
const NoContent = "-"

// Verbs of the audit log. The first three are acts of operators, the next ones steps of
// nodes, and the last ones acts of users of the hub or of the hub itself.
const (
	VerbRoll     = "roll"
	VerbRevert   = "revert"
	VerbKeys     = "keys"
	VerbApplied  = "applied"
	VerbCommit   = "committed"
	VerbReverted = "reverted"
	VerbRefused  = "refused"
	VerbBegun    = "begun"
	VerbPaused   = "paused"
	VerbResumed  = "resumed"
	VerbStopped  = "stopped"
	VerbDone     = "done"
	VerbForgot   = "forgotten"
	VerbJoined   = "joined"  // a node
	VerbRemoved  = "removed" // a node
	VerbDrained  = "drained" // a node gets no more work
	VerbReopened = "reopened"
)

// noDigest stands before the first line.
var noDigest = strings.Repeat("0", 64)

// A Head is how far a node has followed the audit log.
type Head struct {
	Number uint64 `json:"number"`
	Digest string `json:"digest,omitempty"`
	// Own are the lines that this node reported and that the log does not have yet, by
	// the digest of what they say.
	Own map[string]bool `json:"own,omitempty"`
}

// String returns the line as it is in the log.
func (a *Record) String() string {
	keys := "-"
	if len(a.Keys) > 0 {
		keys = strings.Join(a.Keys, ",")
	}
	return fmt.Sprintf("%d %s %s %s %s %s %d %s %s", a.Number, a.Before, timeText(a.Time), a.Who, a.What, a.Line, a.Sequence, a.Content, keys)
}

// Digest returns the digest that the next line contains.
func (a *Record) Digest() string {
	sum := sha256.Sum256([]byte(a.String() + "\n"))
	return hex.EncodeToString(sum[:])
}

// said returns the digest of what a line says, without its place in the log.
func (a *Record) said() string {
	b := *a
	b.Number, b.Before = 0, ""
	return b.Digest()
}

// ParseRecord reads a line of the log.
func ParseRecord(line string) (a Record, err error) {
	w := strings.Split(line, " ")
	if len(w) != 9 {
		return a, refusef(Malformed, "a line of the audit log has %d words, not 9", len(w))
	}
	number, err1 := strconv.ParseUint(w[0], 10, 64)
	at, err2 := time.Parse(time.RFC3339, w[2])
	sequence, err3 := strconv.ParseUint(w[6], 10, 64)
	a = Record{Number: number, Before: w[1], Time: at, Who: w[3], What: w[4], Line: w[5], Sequence: sequence, Content: w[7]}
	if w[8] != "-" {
		a.Keys = strings.Split(w[8], ",")
	}
	if err1 != nil || err2 != nil || err3 != nil || a.String() != line {
		return a, refusef(Malformed, "a line of the audit log is malformed: %.200q", line)
	}
	return a, nil
}

// After gives a record its place behind a line of the log; nil: it is the first.
func (a *Record) After(last *Record) {
	a.Number, a.Before = 1, noDigest
	if last != nil {
		a.Number, a.Before = last.Number+1, last.Digest()
	}
}

// Report records that this node reported a line, so that it recognizes it in the log.
func (s State) Report(a *Record) State {
	next := s.clone()
	next.Audit.Own[a.said()] = true
	return next
}

// FollowAudit checks lines of the log that follow those that this node has seen. node is
// this node's name. document returns the signed document that a line is about, or nil, and
// whether that line must be proved: keys that signed others may have been rotated since.
// No line may be missing or changed, no act of operators may lack their signatures, and
// no line may say of this node what it did not report.
func (s State) FollowAudit(lines []string, node string, document func(a *Record) (text []byte, asked bool)) (State, error) {
	next := s.clone()
	for _, line := range lines {
		a, err := ParseRecord(line)
		if err != nil {
			return s, err
		}
		before := next.Audit.Digest
		if next.Audit.Number == 0 {
			before = noDigest
		}
		if a.Number != next.Audit.Number+1 || a.Before != before {
			return s, refusef(Forged, "line %d of the audit log does not follow line %d that this node saw: the log was rewritten, or lines are missing", a.Number, next.Audit.Number)
		}
		switch a.What {
		case VerbRoll, VerbRevert, VerbKeys:
			if text, asked := document(&a); asked {
				err = next.provedBy(&a, text)
			}
		case VerbApplied, VerbCommit, VerbReverted, VerbRefused:
			if a.Who == node && !next.Audit.Own[a.said()] {
				err = refusef(Forged, "line %d of the audit log says that this node %s sequence %d of %s, and it did not report that", a.Number, a.What, a.Sequence, a.Line)
			}
			delete(next.Audit.Own, a.said())
		case VerbBegun, VerbPaused, VerbResumed, VerbStopped, VerbDone, VerbForgot, VerbJoined, VerbRemoved, VerbDrained, VerbReopened:
		default:
			err = refusef(Forged, "line %d of the audit log says %.40q, which nobody can do", a.Number, a.What)
		}
		if err != nil {
			return s, err
		}
		next.Audit.Number, next.Audit.Digest = a.Number, a.Digest()
	}
	return next, nil
}

// provedBy checks that a line about operators says what their signed document says.
func (s *State) provedBy(a *Record, text []byte) error {
	forged := func(why string) error {
		return refusef(Forged, "line %d of the audit log is no act of operators: %s", a.Number, why)
	}
	k, _, err := s.Keys()
	if err != nil {
		return err
	}
	doc, err := ParseSigned(text)
	if err != nil {
		return forged("no signed document belongs to it")
	}
	said, err := describeDocument(doc)
	if err != nil {
		return forged(err.Error())
	}
	if said.What != a.What || said.Line != a.Line || said.Sequence != a.Sequence || said.Content != a.Content || a.Who != Operators {
		return forged("the signed document says something else")
	}
	signed := map[string]bool{}
	for _, sig := range doc.Signatures {
		if _, known := k.find(sig.ID()); known && doc.valid(sig) {
			signed[sig.ID()] = true
		}
	}
	for _, id := range a.Keys {
		if !signed[id] {
			return forged(fmt.Sprintf("%.80q did not sign it", id))
		}
		delete(signed, id)
	}
	if len(a.Keys) == 0 {
		return forged("it names no key")
	}
	return nil
}

// Describe returns the line of the audit log about a signed document, without its place.
func Describe(text []byte, now time.Time) (Record, error) {
	doc, err := ParseSigned(text)
	if err != nil {
		return Record{}, err
	}
	a, err := describeDocument(doc)
	a.Time, a.Who = now, Operators
	for _, sig := range doc.Signatures {
		a.Keys = append(a.Keys, sig.ID())
	}
	return a, err
}

func describeDocument(doc *Signed) (a Record, err error) {
	switch doc.Kind() {
	case kindPackage:
		p, err := ParsePackage(doc.Text)
		return Record{What: VerbRoll, Line: p.Line, Sequence: p.Sequence, Content: p.Content}, err
	case kindRevert:
		v, err := ParseRevert(doc.Text)
		return Record{What: VerbRevert, Line: v.Line, Sequence: v.Sequence, Content: v.Content}, err
	case kindIncluded:
		i, err := ParseIncluded(doc.Text)
		return Record{What: "included", Line: i.Name, Content: i.Content}, err
	case kindKeys:
		k, err := ParseKeys(doc.Text)
		sum := sha256.Sum256(doc.Text)
		return Record{What: VerbKeys, Line: k.Fleet, Sequence: k.Version, Content: hex.EncodeToString(sum[:])}, err
	}
	return a, refusef(Malformed, "a document of kind %.40q is not known", doc.Kind())
}
