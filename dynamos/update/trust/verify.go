// SPDX-License-Identifier: MIT

package trust

import (
	"fmt"
	"strings"
	"time"

	"skep/internal/uapi"
)

// Facts are what a node knows itself about what it shall do.
type Facts struct {
	Relayed              bool   // asked by a hub, not by root of this node
	Name, Class, Content string // of the package, from its own bytes
	Relies               bool   // its code relies on what existing objects lack
	Policy               *uapi.DynamosPolicy
	Cgroup               func(uint64) string // path of a cgroup
	Trial                bool                // a trial begins
	Confirm              time.Duration       // its length; 0: it never ends
}

// A Verdict describes a document that was accepted.
type Verdict struct {
	Signers   []string // names and identities of the keys that count
	Threshold int
	Package   Package // if it is about a package
	Revert    Revert  // if it is an order to revert
	Included  Included
}

// opinion says what this node thinks of a signature; ok: it counts.
func (s *State) opinion(doc *Signed, sig Signature, k *Keys) (text string, ok bool) {
	id := sig.ID()
	key, known := k.find(id)
	why, revoked := s.Revoked[id]
	switch {
	case revoked:
		return fmt.Sprintf("%s is revoked (%s)", id, why), false
	case !known:
		return id + " is not trusted here", false
	case !doc.valid(sig):
		return fmt.Sprintf("the signature of %s is not valid for this text", key.Label()), false
	}
	return key.Label(), true
}

// Opinions returns a line about each signature of a document, for people.
func (s *State) Opinions(doc *Signed) (list []string) {
	k, _, err := s.Keys()
	for _, sig := range doc.Signatures {
		text, ok := s.opinion(doc, sig, &k)
		switch {
		case ok:
			text += ": valid"
		case err != nil && doc.valid(sig):
			text = sig.ID() + ": valid"
		case err != nil:
			text = sig.ID() + ": not valid for this text"
		}
		list = append(list, text)
	}
	return list
}

// signedBy returns the keys of k that signed a document. It refuses fewer than the
// threshold, and says of each signature why it does not count.
func (s *State) signedBy(doc *Signed, k *Keys) (names []string, err error) {
	if len(doc.Signatures) == 0 {
		return nil, refusef(Unsigned, "nobody signed it, and %d of %d keys must", k.Threshold, len(k.Keys))
	}
	var not []string
	for _, sig := range doc.Signatures {
		if text, ok := s.opinion(doc, sig, k); ok {
			names = append(names, text)
		} else {
			not = append(not, text)
		}
	}
	if len(names) >= k.Threshold {
		return names, nil
	}
	why := ""
	if len(not) > 0 {
		why = ": " + strings.Join(not, "; ")
	}
	return names, refusef(Threshold, "%d of the %d signatures that are needed count%s", len(names), k.Threshold, why)
}

// Label returns a key's identity and its name.
func (k Key) Label() string {
	if k.Name == "" {
		return k.ID()
	}
	return k.ID() + " (" + k.Name + ")"
}

// inTime checks when a document was signed and when it expires.
func inTime(what string, signed, expires, now time.Time) error {
	switch {
	case now.Add(clockSlack).Before(signed):
		return refusef(Future, "%s was signed at %s, and this machine's clock says %s: the clock is behind, or the signer's ahead", what, timeText(signed), timeText(now))
	case !now.Before(expires):
		return refusef(Expired, "%s expired at %s, and it is %s: operators must sign it again", what, timeText(expires), timeText(now))
	}
	return nil
}

// begin returns a copy of the state at this time, and the keys in force.
func (s State) begin(now time.Time) (State, Keys, error) {
	next := s.clone()
	k, _, err := s.Keys()
	if err != nil {
		return s, k, err
	}
	if err := next.tick(now); err != nil {
		return s, k, err
	}
	if !now.Before(k.Expires) {
		return s, k, refusef(Stale, "the document of keys of %s expired at %s: whoever relays updates has stopped, or operators have signed no newer one", k.Fleet, timeText(k.Expires))
	}
	return next, k, nil
}

// CheckPackage decides whether a package may be applied as the facts say. text is the
// signed statement in the package; without signatures it is empty.
func (s State) CheckPackage(text []byte, f *Facts, now time.Time) (State, Verdict, error) {
	next, k, err := s.begin(now)
	if err != nil {
		return s, Verdict{}, err
	}
	v := Verdict{Threshold: k.Threshold}
	if len(text) == 0 {
		return s, v, refusef(Unsigned, "nobody signed %s, and %d of %d keys must", f.Name, k.Threshold, len(k.Keys))
	}
	doc, err := ParseSigned(text)
	if err != nil {
		return s, v, err
	}
	if v.Package, err = ParsePackage(doc.Text); err != nil {
		return s, v, err
	}
	if v.Signers, err = next.signedBy(doc, &k); err != nil {
		return s, v, err
	}
	p := &v.Package
	if err = inTime("the statement about "+p.Name, p.Signed, p.Expires, now); err == nil {
		err = p.checkFacts(f)
	}
	if err == nil && f.Relayed && next.Blocked[f.Content] != "" {
		err = refusef(Blocked, "%s failed on this node (%s): a hub cannot apply it again; root of this node can", f.Name, next.Blocked[f.Content])
	}
	if err == nil {
		err = next.follow(p.Line, p.Sequence, p.Content)
	}
	if err != nil {
		return s, v, err
	}
	return next, v, nil
}

// CheckPolicy decides whether an update that was applied may get another policy. Neither
// the expiry nor a newer sequence forbids that: the package was taken in time.
func (s State) CheckPolicy(text []byte, f *Facts) error {
	k, _, err := s.Keys()
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return refusef(Unsigned, "nobody signed %s, and %d of %d keys must", f.Name, k.Threshold, len(k.Keys))
	}
	doc, err := ParseSigned(text)
	if err != nil {
		return err
	}
	p, err := ParsePackage(doc.Text)
	if err != nil {
		return err
	}
	if _, err := s.signedBy(doc, &k); err != nil {
		return err
	}
	return p.checkFacts(f)
}

// checkFacts compares a statement with what a node shall do.
func (p *Package) checkFacts(f *Facts) error {
	switch {
	case p.Name != f.Name:
		return refusef(Mixed, "the statement is about %s, and the package is %s", p.Name, f.Name)
	case p.Class != f.Class:
		return refusef(Mixed, "the statement is about class %s, and %s has class %s", p.Class, f.Name, f.Class)
	case p.Content != f.Content:
		return refusef(Changed, "the contents of %s are not those that were signed", f.Name)
	case f.Relayed && f.Relies && p.ObjectsExist == "":
		return refusef(Existing, "%s relies on what existing objects lack, and its statement does not say why they do no harm: 'skep update sign --objects-exist REASON'", f.Name)
	case f.Policy != nil && !p.Widest.Contains(f.Policy, f.Cgroup):
		return refusef(Wider, "the policy is wider than the signed one: %s", p.Widest)
	case f.Trial && (f.Confirm <= 0 || f.Confirm > p.Trial):
		return refusef(Unlimited, "a trial of %s may last %v at most without commit, as signed", f.Name, p.Trial)
	}
	return nil
}

// follow checks a sequence against the highest one seen, and records it.
func (s *State) follow(line string, sequence uint64, content string) error {
	m := s.Lines[line]
	switch {
	case sequence < m.Sequence || sequence == m.Sequence && m.Reverted:
		what := "is the lowest that is taken"
		if m.Reverted {
			what = "was an order to revert"
		} else if m.Content != "" {
			what = "was seen"
		}
		return refusef(Older, "it has sequence %d of line %s, and %d %s: an older update is not taken again", sequence, line, m.Sequence, what)
	case sequence == m.Sequence && m.Content != "" && m.Content != content:
		return refusef(Reused, "sequence %d of line %s was seen with other contents: each package needs a sequence of its own", sequence, line)
	}
	return s.mark(line, Mark{Sequence: sequence, Content: content})
}

// CheckRevert decides whether a node reverts a committed update because operators ordered
// it. Root of the node needs no order.
func (s State) CheckRevert(text []byte, f *Facts, now time.Time) (State, Verdict, error) {
	next, k, err := s.begin(now)
	if err != nil {
		return s, Verdict{}, err
	}
	v := Verdict{Threshold: k.Threshold}
	if len(text) == 0 {
		return s, v, refusef(Unsigned, "%s is committed: its revert needs %d of %d keys, or root of this node", f.Name, k.Threshold, len(k.Keys))
	}
	doc, err := ParseSigned(text)
	if err != nil {
		return s, v, err
	}
	if v.Revert, err = ParseRevert(doc.Text); err != nil {
		return s, v, err
	}
	if v.Signers, err = next.signedBy(doc, &k); err != nil {
		return s, v, err
	}
	r := &v.Revert
	m := next.Lines[r.Line]
	switch err = inTime("the order to revert "+r.Name, r.Signed, r.Expires, now); {
	case err != nil:
	case r.Name != f.Name || r.Content != f.Content:
		err = refusef(Mixed, "the order is about another update or package than the %s that is committed", f.Name)
	case r.Sequence < m.Sequence || r.Sequence == m.Sequence && !(m.Reverted && m.Content == r.Content):
		err = refusef(Older, "the order has sequence %d of line %s, and %d was seen: an older order is not obeyed again", r.Sequence, r.Line, m.Sequence)
	default:
		err = next.mark(r.Line, Mark{Sequence: r.Sequence, Content: r.Content, Reverted: true})
	}
	if err != nil {
		return s, v, err
	}
	return next, v, nil
}

// CheckIncluded decides whether a node takes it for granted that its kernel, of this build-id,
// contains the change of a package of which it knows name and contents.
func (s State) CheckIncluded(text []byte, f *Facts, buildID string, now time.Time) (Verdict, error) {
	_, k, err := s.begin(now)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Threshold: k.Threshold}
	doc, err := ParseSigned(text)
	if err != nil {
		return v, err
	}
	if v.Included, err = ParseIncluded(doc.Text); err != nil {
		return v, err
	}
	if v.Signers, err = s.signedBy(doc, &k); err != nil {
		return v, err
	}
	i := &v.Included
	switch {
	case i.Name != f.Name || i.Content != f.Content:
		return v, refusef(Mixed, "the statement is about another update or package than this %s", f.Name)
	case i.BuildID != buildID:
		return v, refusef(Mixed, "the statement is about the kernel %s with the build-id %s, and this one is %s", i.Version, i.BuildID, buildID)
	}
	return v, inTime("the statement that "+i.Version+" contains "+i.Name, i.Signed, i.Expires, now)
}
