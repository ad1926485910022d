// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
)

// A takenHub has all that a hub has: every document that operators ever gave it, and keys
// of its own. It has no operator's key.
type takenHub struct {
	node State // of the node that it attacks
	now  time.Time
}

// send asks the node to apply a package.
func (h *takenHub) send(p Package, f *Facts, by ...*Signer) error {
	next, _, err := h.node.CheckPackage(signedText(p.Encode(), by...), f, h.now)
	if err == nil {
		h.node = next
	}
	return err
}

// revert asks the node to revert what it committed.
func (h *takenHub) revert(r Revert, by ...*Signer) error {
	next, _, err := h.node.CheckRevert(signedText(r.Encode(), by...), arpFacts(), h.now)
	if err == nil {
		h.node = next
	}
	return err
}

func (h *takenHub) keys(k Keys, by ...*Signer) error {
	next, _, err := h.node.CheckKeys(signedText(k.Encode(), by...), h.now)
	if err == nil {
		h.node = next
	}
	return err
}

func arpRevert() Revert {
	return Revert{Line: "arp", Sequence: 8, Name: "arp_fix", Content: contentA,
		Signed: start.Add(-time.Minute), Expires: start.Add(24 * time.Hour)}
}

// buildA is the build-id of the node's kernel.
var buildA = strings.Repeat("ab", 20)

func arpIncluded() Included {
	return Included{Name: "arp_fix", Content: contentA, BuildID: buildA, Version: "6.1.190-1",
		Signed: start.Add(-time.Minute), Expires: start.Add(24 * time.Hour)}
}

// include says to the node that its kernel needs a package no more.
func (h *takenHub) include(i Included, by ...*Signer) error {
	_, err := h.node.CheckIncluded(signedText(i.Encode(), by...), arpFacts(), buildA, h.now)
	return err
}

const idAlice, idBob, idMallory = "SHA256:ALICE", "SHA256:BOB", "SHA256:MALLORY"

// named replaces the identities of the tests' keys.
func named(text string) string {
	return strings.NewReplacer(idAlice, alice.ID(), idBob, bob.ID(), idMallory, mallory.ID()).Replace(text)
}

// What a hub that was taken over can try, with the refusal's name and sentence.
func TestTakenHub(t *testing.T) {
	for what, c := range map[string]struct {
		try            func(h *takenHub) error
		name, sentence string
	}{
		"sends its own package, unsigned": {func(h *takenHub) error { return h.send(arpPackage(), arpFacts()) },
			Unsigned, "nobody signed it, and 2 of 3 keys must"},
		"sends a package without a statement": {func(h *takenHub) error {
			_, _, err := h.node.CheckPackage(nil, arpFacts(), h.now)
			return err
		}, Unsigned, "nobody signed arp_fix, and 2 of 3 keys must"},
		"signs with its own keys": {func(h *takenHub) error { return h.send(arpPackage(), arpFacts(), mallory, operator("hub")) },
			Threshold, "0 of the 2 signatures that are needed count: " + operator("hub").ID() + " is not trusted here; SHA256:MALLORY is not trusted here"},
		"adds its signature to that of one operator": {func(h *takenHub) error { return h.send(arpPackage(), arpFacts(), alice, mallory) },
			Threshold, "1 of the 2 signatures that are needed count: SHA256:MALLORY is not trusted here"},
		"puts an operator's signature below another text": {func(h *takenHub) error {
			p := arpPackage()
			doc := &Signed{Text: p.Encode()}
			doc.Sign(alice)
			doc.Sign(bob)
			p.Widest = Policy{Others: true}
			doc.Text = p.Encode()
			_, _, err := h.node.CheckPackage(doc.Encode(), arpFacts(), h.now)
			return err
		}, Threshold, "0 of the 2 signatures that are needed count: the signature of SHA256:ALICE (alice) is not valid for this text; the signature of SHA256:BOB (bob) is not valid for this text"},
		"repeats one operator's signature": {func(h *takenHub) error {
			p := arpPackage()
			text := signedText(p.Encode(), alice)
			text = append(text, text[bytes.Index(text, []byte(sigBegin)):]...)
			_, _, err := h.node.CheckPackage(text, arpFacts(), h.now)
			return err
		}, Malformed, "the signatures are not in the order of their keys, or one key signed twice"},
		"changes the module in a signed package": {func(h *takenHub) error {
			f := arpFacts()
			f.Content = contentB
			return h.send(arpPackage(), f, alice, bob)
		}, Changed, "the contents of arp_fix are not those that were signed"},
		"puts one package's signatures into another": {func(h *takenHub) error {
			f := arpFacts()
			f.Name = "tcp_fix"
			return h.send(arpPackage(), f, alice, bob)
		}, Mixed, "the statement is about arp_fix, and the package is tcp_fix"},
		"changes the class": {func(h *takenHub) error {
			f := arpFacts()
			f.Class = "task"
			return h.send(arpPackage(), f, alice, bob)
		}, Mixed, "the statement is about class any, and arp_fix has class task"},
		"widens the policy to all": {func(h *takenHub) error {
			f := arpFacts()
			f.Policy = &uapi.DynamosPolicy{Otherwise: 1}
			return h.send(arpPackage(), f, alice, bob)
		}, Wider, "the policy is wider than the signed one: uid=1000"},
		"widens the policy to another user": {func(h *takenHub) error {
			f := arpFacts()
			f.Policy = forUser(0)
			return h.send(arpPackage(), f, alice, bob)
		}, Wider, "the policy is wider than the signed one: uid=1000"},
		"widens the policy of what was applied": {func(h *takenHub) error {
			f := arpFacts()
			f.Policy, f.Trial = &uapi.DynamosPolicy{Otherwise: 1}, false
			p := arpPackage()
			return after(h.send(p, arpFacts(), alice, bob), t, func() error { return h.node.CheckPolicy(signedText(p.Encode(), alice, bob), f) })
		}, Wider, "the policy is wider than the signed one: uid=1000"},
		"changes the policy with a statement of its own": {func(h *takenHub) error {
			p := arpPackage()
			p.Widest = Policy{Others: true}
			f := arpFacts()
			f.Trial = false
			return h.node.CheckPolicy(signedText(p.Encode(), mallory, alice), f)
		}, Threshold, "1 of the 2 signatures that are needed count: SHA256:MALLORY is not trusted here"},
		"changes the policy of what nobody signed": {func(h *takenHub) error { return h.node.CheckPolicy(nil, arpFacts()) },
			Unsigned, "nobody signed arp_fix, and 2 of 3 keys must"},
		"starts a trial that never ends": {func(h *takenHub) error {
			f := arpFacts()
			f.Confirm = 0
			return h.send(arpPackage(), f, alice, bob)
		}, Unlimited, "a trial of arp_fix may last 10m0s at most without commit, as signed"},
		"starts a trial of a week": {func(h *takenHub) error {
			f := arpFacts()
			f.Confirm = 7 * 24 * time.Hour
			return h.send(arpPackage(), f, alice, bob)
		}, Unlimited, "a trial of arp_fix may last 10m0s at most without commit, as signed"},
		"applies what relies on what objects lack": {func(h *takenHub) error {
			f := arpFacts()
			f.Relies = true
			return h.send(arpPackage(), f, alice, bob)
		}, Existing, "arp_fix relies on what existing objects lack, and its statement does not say why they do no harm: 'skep update sign --objects-exist REASON'"},
		"replays an older package": {func(h *takenHub) error {
			old := arpPackage()
			old.Sequence, old.Content = 6, contentB
			f := arpFacts()
			f.Content = contentB
			return after(h.send(arpPackage(), arpFacts(), alice, bob), t, func() error { return h.send(old, f, alice, bob) })
		}, Older, "it has sequence 6 of line arp, and 7 was seen: an older update is not taken again"},
		"uses a sequence twice": {func(h *takenHub) error {
			other := arpPackage()
			other.Content = contentB
			f := arpFacts()
			f.Content = contentB
			return after(h.send(arpPackage(), arpFacts(), alice, bob), t, func() error { return h.send(other, f, alice, bob) })
		}, Reused, "sequence 7 of line arp was seen with other contents: each package needs a sequence of its own"},
		"replays a package that operators reverted": {func(h *takenHub) error {
			return after(h.revert(arpRevert(), alice, bob), t, func() error { return h.send(arpPackage(), arpFacts(), alice, bob) })
		}, Older, "it has sequence 7 of line arp, and 8 was an order to revert: an older update is not taken again"},
		"sends a package with the sequence of the order that reverted it": {func(h *takenHub) error {
			p := arpPackage()
			p.Sequence = 8
			return after(h.revert(arpRevert(), alice, bob), t, func() error { return h.send(p, arpFacts(), alice, bob) })
		}, Older, "it has sequence 8 of line arp, and 8 was an order to revert: an older update is not taken again"},
		"uses an order with the sequence of the package": {func(h *takenHub) error {
			r := arpRevert()
			r.Sequence = 7
			return after(h.send(arpPackage(), arpFacts(), alice, bob), t, func() error { return h.revert(r, alice, bob) })
		}, Older, "the order has sequence 7 of line arp, and 7 was seen: an older order is not obeyed again"},
		"uses an order about the same contents with another name": {func(h *takenHub) error {
			r := arpRevert()
			r.Name = "tcp_fix"
			return h.revert(r, alice, bob)
		}, Mixed, "the order is about another update or package than the arp_fix that is committed"},
		"keeps a package back until it has expired": {func(h *takenHub) error {
			h.now = start.Add(8 * 24 * time.Hour)
			return h.send(arpPackage(), arpFacts(), alice, bob)
		}, Expired, "the statement about arp_fix expired at 2026-12-03T12:00:00Z, and it is 2026-12-04T12:00:00Z: operators must sign it again"},
		"withholds newer documents of keys": {func(h *takenHub) error {
			h.now = start.Add(31 * 24 * time.Hour)
			return h.send(arpPackage(), arpFacts(), alice, bob)
		}, Stale, "the document of keys of lab expired at 2026-12-26T12:00:00Z: whoever relays updates has stopped, or operators have signed no newer one"},
		"sets the node's clock back to revive a package": {func(h *takenHub) error {
			h.node.Seen = start.Add(8 * 24 * time.Hour).Unix()
			return h.send(arpPackage(), arpFacts(), alice, bob)
		}, Clock, "this machine's clock says 2026-11-26T12:00:00Z, but 2026-12-04T12:00:00Z was seen already: it was set back, so nothing can expire; set it right, or as root pin the keys again with --forget-time"},
		"sets the clock back before the signatures": {func(h *takenHub) error {
			p := arpPackage()
			p.Signed = start.Add(time.Hour)
			return h.send(p, arpFacts(), alice, bob)
		}, Future, "the statement about arp_fix was signed at 2026-11-26T13:00:00Z, and this machine's clock says 2026-11-26T12:00:00Z: the clock is behind, or the signer's ahead"},
		"applies again what failed here": {func(h *takenHub) error {
			h.node = h.node.Block(contentA, "WARN in arp_ioctl")
			return h.send(arpPackage(), arpFacts(), alice, bob)
		}, Blocked, "arp_fix failed on this node (WARN in arp_ioctl): a hub cannot apply it again; root of this node can"},
		"uses a stolen key that was revoked": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Keys, k.Revoked = 2, []Key{alice.Key, carol.Key}, []string{bob.ID()}
			return after(h.keys(k, alice, carol), t, func() error { return h.send(arpPackage(), arpFacts(), alice, bob) })
		}, Threshold, "1 of the 2 signatures that are needed count: SHA256:BOB is revoked (2026-11-26T11:00:00Z, by operators)"},
		"reverts a committed fix": {func(h *takenHub) error { return h.revert(arpRevert()) },
			Unsigned, "nobody signed it, and 2 of 3 keys must"},
		"reverts without an order": {func(h *takenHub) error {
			_, _, err := h.node.CheckRevert(nil, arpFacts(), h.now)
			return err
		}, Unsigned, "arp_fix is committed: its revert needs 2 of 3 keys, or root of this node"},
		"signs an order to revert itself": {func(h *takenHub) error { return h.revert(arpRevert(), mallory, alice) },
			Threshold, "1 of the 2 signatures that are needed count: SHA256:MALLORY is not trusted here"},
		"uses a statement as an order to revert": {func(h *takenHub) error {
			p := arpPackage()
			_, _, err := h.node.CheckRevert(signedText(p.Encode(), alice, bob), arpFacts(), h.now)
			return err
		}, Malformed, `the document is malformed: the line "skep-revert" is expected`},
		"sends another order to revert with a sequence that was obeyed": {func(h *takenHub) error {
			other := arpRevert()
			other.Content = contentB
			f := arpFacts() // root of the node committed it by hand
			f.Content = contentB
			return after(h.revert(arpRevert(), alice, bob), t, func() error {
				_, _, err := h.node.CheckRevert(signedText(other.Encode(), alice, bob), f, h.now)
				return err
			})
		}, Older, "the order has sequence 8 of line arp, and 8 was seen: an older order is not obeyed again"},
		"replays an order to revert an earlier package": {func(h *takenHub) error {
			newer := arpPackage()
			newer.Sequence = 9
			return after(h.send(newer, arpFacts(), alice, bob), t, func() error { return h.revert(arpRevert(), alice, bob) })
		}, Older, "the order has sequence 8 of line arp, and 9 was seen: an older order is not obeyed again"},
		"uses an order to revert another package": {func(h *takenHub) error {
			r := arpRevert()
			r.Content = contentB
			return h.revert(r, alice, bob)
		}, Mixed, "the order is about another update or package than the arp_fix that is committed"},
		"uses an expired order to revert": {func(h *takenHub) error {
			h.now = start.Add(25 * time.Hour)
			return h.revert(arpRevert(), alice, bob)
		}, Expired, "the order to revert arp_fix expired at 2026-11-27T12:00:00Z, and it is 2026-11-27T13:00:00Z: operators must sign it again"},
		"rotates to its own keys": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Threshold, k.Keys = 2, 1, []Key{mallory.Key}
			return h.keys(k, mallory)
		}, Threshold, "0 of the 2 signatures that are needed count: SHA256:MALLORY is not trusted here"},
		"lowers the threshold with one stolen key": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Threshold = 2, 1
			return h.keys(k, alice)
		}, Threshold, "1 of the 2 signatures that are needed count"},
		"sends a document of keys that its own keys did not sign": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Keys = 2, []Key{alice.Key, mallory.Key}
			return h.keys(k, alice, bob)
		}, Threshold, "1 of the 2 signatures that are needed count: SHA256:BOB is not trusted here"},
		"replays an older document of keys": {func(h *takenHub) error { return h.keys(fleetKeys(), alice, bob, carol) },
			Older, "the document of keys has version 1, and version 1 is in force"},
		"sends the document of keys of another fleet": {func(h *takenHub) error {
			k := fleetKeys()
			k.Fleet, k.Version = "other", 2
			return h.keys(k, alice, bob)
		}, OtherKeys, "the document of keys is of fleet other, and this node belongs to lab"},
		"sends a document of keys that has expired": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Expires = 2, start.Add(-time.Second)
			return h.keys(k, alice, bob)
		}, Expired, "the document of keys expired at 2026-11-26T11:59:59Z, and it is 2026-11-26T12:00:00Z: operators must sign it again"},
		"sends a package below the floor": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Floors = 2, map[string]uint64{"arp": 9}
			return after(h.keys(k, alice, carol), t, func() error { return h.send(arpPackage(), arpFacts(), alice, bob) })
		}, Older, "it has sequence 7 of line arp, and 9 is the lowest that is taken: an older update is not taken again"},
		"sends such a package after newer keys with a lower floor": {func(h *takenHub) error {
			k := fleetKeys()
			k.Version, k.Floors = 2, map[string]uint64{"arp": 9}
			lower := k
			lower.Version, lower.Floors = 3, map[string]uint64{"arp": 1}
			return after(errors.Join(h.keys(k, alice, carol), h.keys(lower, alice, carol)), t,
				func() error { return h.send(arpPackage(), arpFacts(), alice, bob) })
		}, Older, "it has sequence 7 of line arp, and 9 is the lowest that is taken: an older update is not taken again"},
		"says that the kernel contains a fix": {func(h *takenHub) error { return h.include(arpIncluded()) },
			Unsigned, "nobody signed it, and 2 of 3 keys must"},
		"signs itself that the kernel contains a fix": {func(h *takenHub) error { return h.include(arpIncluded(), mallory, alice) },
			Threshold, "1 of the 2 signatures that are needed count: SHA256:MALLORY is not trusted here"},
		"says of one kernel what was signed of another": {func(h *takenHub) error {
			i := arpIncluded()
			i.BuildID = strings.Repeat("cd", 20)
			return h.include(i, alice, bob)
		}, Mixed, "the statement is about the kernel 6.1.190-1 with the build-id cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd, and this one is abababababababababababababababababababab"},
		"says of one package what was signed of another": {func(h *takenHub) error {
			i := arpIncluded()
			i.Content = contentB
			return h.include(i, alice, bob)
		}, Mixed, "the statement is about another update or package than this arp_fix"},
		"says of one update what was signed of another": {func(h *takenHub) error {
			i := arpIncluded()
			i.Name = "tcp_fix"
			return h.include(i, alice, bob)
		}, Mixed, "the statement is about another update or package than this arp_fix"},
		"uses the statement about a package as one about a kernel": {func(h *takenHub) error {
			p := arpPackage()
			_, err := h.node.CheckIncluded(signedText(p.Encode(), alice, bob), arpFacts(), buildA, h.now)
			return err
		}, Malformed, `the document is malformed: the line "skep-included" is expected`},
		"says it after the statement expired": {func(h *takenHub) error {
			h.now = start.Add(25 * time.Hour)
			return h.include(arpIncluded(), alice, bob)
		}, Expired, "the statement that 6.1.190-1 contains arp_fix expired at 2026-11-27T12:00:00Z, and it is 2026-11-27T13:00:00Z: operators must sign it again"},
		"says it to a node that has no keys": {func(h *takenHub) error {
			h.node = State{}
			return h.include(arpIncluded(), alice, bob)
		}, Unpinned, "this node has no keys of operators: 'skep update keys trust' pins them"},
		"attacks a node that has no keys": {func(h *takenHub) error {
			h.node = State{}
			return h.send(arpPackage(), arpFacts(), alice, bob)
		}, Unpinned, "this node has no keys of operators: 'skep update keys trust' pins them"},
		"gives a node that has no keys its own": {func(h *takenHub) error {
			h.node = State{}
			return h.keys(fleetKeys(), alice, bob)
		}, Unpinned, "this node has no keys of operators: 'skep update keys trust' pins them"},
	} {
		h := &takenHub{node: newNode(t, fleetKeys()), now: start}
		refusedAs(t, what, c.try(h), c.name, named(c.sentence))
	}
}

// after fails the test if the step before the attack failed.
func after(err error, t *testing.T, attack func() error) error {
	t.Helper()
	if err != nil {
		t.Errorf("the step before the attack: %v", err)
	}
	return attack()
}

// What operators signed is taken, by any two of the three; again too, after a reboot.
func TestSignedPackageIsTaken(t *testing.T) {
	for _, by := range [][]*Signer{{alice, bob}, {bob, carol}, {alice, carol}, {alice, bob, carol}, {alice, bob, mallory}} {
		h := &takenHub{node: newNode(t, fleetKeys()), now: start}
		for range 2 {
			if err := h.send(arpPackage(), arpFacts(), by...); err != nil {
				t.Fatal(err)
			}
		}
		if m := h.node.Lines["arp"]; m != (Mark{Sequence: 7, Content: contentA}) {
			t.Errorf("%+v", m)
		}
		for range 2 {
			if err := h.revert(arpRevert(), by...); err != nil {
				t.Fatal(err)
			}
		}
		newer := arpPackage()
		newer.Sequence = 9
		if err := h.send(newer, arpFacts(), by...); err != nil {
			t.Error("a newer package after a revert:", err)
		}
	}
}

// What operators signed of a kernel is believed, and by whom is known.
func TestSignedInclusionIsTaken(t *testing.T) {
	i := arpIncluded()
	s := newNode(t, fleetKeys())
	v, err := s.CheckIncluded(signedText(i.Encode(), alice, bob), arpFacts(), buildA, start)
	if err != nil || len(v.Signers) != 2 || v.Included.Version != "6.1.190-1" {
		t.Errorf("%+v, %v", v, err)
	}
}

// Root of the node may apply again what failed, and nothing else that is refused.
func TestRootMayApplyAgainWhatFailed(t *testing.T) {
	h := &takenHub{node: newNode(t, fleetKeys()).Block(contentA, "WARN"), now: start}
	f := arpFacts()
	f.Relayed = false
	if err := h.send(arpPackage(), f, alice, bob); err != nil {
		t.Error(err)
	}
	if err := h.send(arpPackage(), f, alice); Name(err) != Threshold {
		t.Error(err)
	}
}

// A refusal changes nothing: a package that is refused does not move a mark or the clock.
func TestRefusalChangesNothing(t *testing.T) {
	s := newNode(t, fleetKeys())
	before, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p, f := arpPackage(), arpFacts()
	f.Policy = forUser(0)
	next, _, err := s.CheckPackage(signedText(p.Encode(), alice, bob), f, start.Add(time.Hour))
	if err == nil {
		t.Fatal("taken")
	}
	now, err1 := next.Encode()
	was, err2 := s.Encode()
	if err1 != nil || err2 != nil || !bytes.Equal(before, now) || !bytes.Equal(before, was) {
		t.Error("a refusal changed the state")
	}
}
