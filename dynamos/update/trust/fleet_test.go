// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
)

// start is when the tests begin.
var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// operator returns the private key of an operator. The same name gives the same key.
func operator(name string) *Signer {
	seed := [ed25519.SeedSize]byte{}
	copy(seed[:], name)
	s := &Signer{private: ed25519.NewKeyFromSeed(seed[:])}
	copy(s.Public[:], s.private.Public().(ed25519.PublicKey))
	s.Name = name
	return s
}

var alice, bob, carol, mallory = operator("alice"), operator("bob"), operator("carol"), operator("mallory")

func signedText(text []byte, by ...*Signer) []byte {
	s := &Signed{Text: text}
	for _, o := range by {
		s.Sign(o)
	}
	return s.Encode()
}

// fleetKeys is a document of keys: two of alice, bob and carol must sign.
func fleetKeys() Keys {
	return Keys{Fleet: "lab", Version: 1, Threshold: 2, Signed: start.Add(-time.Hour), Expires: start.Add(30 * 24 * time.Hour),
		Keys: []Key{alice.Key, bob.Key, carol.Key}, Floors: map[string]uint64{}}
}

// newNode returns the state of a node that has these keys.
func newNode(t testing.TB, k Keys) State {
	t.Helper()
	s, _, err := State{}.Pin(signedText(k.Encode(), alice, bob, carol), start, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var contentA, contentB = strings.Repeat("a", 64), strings.Repeat("b", 64)

// arpPackage is the statement about sequence 7 of line arp, for one user.
func arpPackage() Package {
	return Package{Line: "arp", Sequence: 7, Name: "arp_fix", Class: "any", Content: contentA,
		Signed: start.Add(-time.Minute), Expires: start.Add(7 * 24 * time.Hour), Trial: 10 * time.Minute,
		Widest: Policy{Allow: []Rule{{Terms: uapi.DynamosUID, UID: 1000}}}}
}

// forUser is a policy of the kernel for one user.
func forUser(uid uint32) *uapi.DynamosPolicy {
	p := &uapi.DynamosPolicy{Rules: 1}
	p.Rule[0] = uapi.DynamosRule{Terms: uapi.DynamosUID, Choice: 1, UID: uid}
	return p
}

// arpFacts are what a node knows if a hub sends it the package of arpPackage.
func arpFacts() *Facts {
	return &Facts{Relayed: true, Name: "arp_fix", Class: "any", Content: contentA, Policy: forUser(1000),
		Cgroup: func(uint64) string { return "" }, Trial: true, Confirm: 5 * time.Minute}
}

// refusedAs checks the name and the sentence of a refusal.
func refusedAs(t *testing.T, what string, err error, name, sentence string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: taken", what)
	case Name(err) != name || err.Error() != sentence:
		t.Errorf("%s: refused as %q:\n%v\nwant %q:\n%s", what, Name(err), err, name, sentence)
	}
}
