// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Times count to the second: a clock may differ by the slack, and what expires now has expired.
func TestEdgesOfTimes(t *testing.T) {
	p := arpPackage()
	signedAt := func(at time.Time) error {
		p := p
		p.Signed = at
		_, _, err := newNode(t, fleetKeys()).CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), start)
		return err
	}
	if err := signedAt(start.Add(clockSlack)); err != nil {
		t.Errorf("signed as far ahead as clocks differ: %v", err)
	}
	if err := signedAt(start.Add(clockSlack + time.Second)); Name(err) != Future {
		t.Errorf("signed later: %v", err)
	}
	takenAt := func(at time.Time) error {
		_, _, err := newNode(t, fleetKeys()).CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), at)
		return err
	}
	for at, want := range map[time.Time]string{p.Expires.Add(-time.Second): "", p.Expires: Expired, start.Add(-clockSlack): "", start.Add(-clockSlack - time.Second): Clock} {
		if got := Name(takenAt(at)); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	k := fleetKeys()
	k.Expires = start.Add(time.Hour)
	s := newNode(t, k)
	if _, _, err := s.CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), k.Expires); Name(err) != Stale {
		t.Errorf("the keys expire now: %v", err)
	}
}

// A node refuses a clock that was set back, and remembers the latest time alone.
func TestTick(t *testing.T) {
	s := newNode(t, fleetKeys())
	later, err := s.Tick(start.Add(time.Hour))
	if err != nil || later.Seen != start.Add(time.Hour).Unix() || s.Seen != start.Unix() {
		t.Fatalf("%v: %d, was %d", err, later.Seen, s.Seen)
	}
	if same, err := later.Tick(start.Add(time.Hour - clockSlack)); err != nil || same.Seen != later.Seen {
		t.Errorf("%v: %d", err, same.Seen)
	}
	if same, err := later.Tick(start); Name(err) != Clock || same.Seen != later.Seen {
		t.Errorf("%v: %d", err, same.Seen)
	}
	if Name(errors.New("another error")) != "" {
		t.Error("another error has the name of a refusal")
	}
}

// A trial lasts at most as long as signed.
func TestEdgesOfTrials(t *testing.T) {
	p := arpPackage()
	for confirm, want := range map[time.Duration]string{0: Unlimited, -1: Unlimited, 1: "", p.Trial: "", p.Trial + 1: Unlimited} {
		f := arpFacts()
		f.Confirm = confirm
		if got := Name(p.checkFacts(f)); got != want {
			t.Errorf("%v: %q, want %q", confirm, got, want)
		}
	}
}

// People read of each signature whether it counts, on a node with keys and on one without.
func TestOpinions(t *testing.T) {
	p := arpPackage()
	doc, err := ParseSigned(signedText(p.Encode(), alice, bob, mallory))
	if err != nil {
		t.Fatal(err)
	}
	s := newNode(t, fleetKeys())
	if s, _, err = s.Revoke(bob.ID(), start); err != nil {
		t.Fatal(err)
	}
	other := *doc
	other.Text = append(bytes.Clone(doc.Text), '\n')
	for _, c := range []struct {
		name string
		node State
		doc  *Signed
		want map[string]string
	}{
		{"a node with keys", s, doc, map[string]string{
			alice.ID():   alice.ID() + " (alice): valid",
			bob.ID():     bob.ID() + " is revoked (2026-11-26T12:00:00Z, by root of this node)",
			mallory.ID(): mallory.ID() + " is not trusted here"}},
		{"another text", newNode(t, fleetKeys()), &other, map[string]string{
			alice.ID():   "the signature of " + alice.ID() + " (alice) is not valid for this text",
			bob.ID():     "the signature of " + bob.ID() + " (bob) is not valid for this text",
			mallory.ID(): mallory.ID() + " is not trusted here"}},
		{"a node without keys", State{}, doc, map[string]string{
			alice.ID(): alice.ID() + ": valid", bob.ID(): bob.ID() + ": valid", mallory.ID(): mallory.ID() + ": valid"}},
		{"without keys, another text", State{}, &other, map[string]string{
			alice.ID(): alice.ID() + ": not valid for this text", bob.ID(): bob.ID() + ": not valid for this text", mallory.ID(): mallory.ID() + ": not valid for this text"}},
	} {
		got := c.node.Opinions(c.doc)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
		for i, sig := range c.doc.Signatures {
			if i < len(got) && got[i] != c.want[sig.ID()] {
				t.Errorf("%s: %q, want %q", c.name, got[i], c.want[sig.ID()])
			}
		}
	}
	nameless := alice.Key
	nameless.Name = ""
	if got := nameless.Label(); got != alice.ID() {
		t.Error(got)
	}
}

// A node remembers so many lines of updates and no more, whoever names them.
func TestMostLines(t *testing.T) {
	s := newNode(t, fleetKeys())
	for n := range maxLines - 1 {
		if err := s.mark(fmt.Sprint("line", n), Mark{Sequence: 1}); err != nil {
			t.Fatal(err)
		}
	}
	take := func(line string) error {
		p := arpPackage()
		p.Line = line
		next, _, err := s.CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), start)
		if err == nil {
			s = next
		}
		return err
	}
	if err := take("last"); err != nil {
		t.Errorf("the last line: %v", err)
	}
	if err := take("beyond"); Name(err) != Malformed || !strings.Contains(err.Error(), "remembers 256 lines of updates already") {
		t.Errorf("one line more: %v", err)
	}
	if err := take("line7"); err != nil {
		t.Errorf("a line that is known: %v", err)
	}
	r := arpRevert()
	r.Line = "beyond"
	f := arpFacts()
	if _, _, err := s.CheckRevert(signedText(r.Encode(), alice, bob), f, start); Name(err) != Malformed {
		t.Errorf("an order for one line more: %v", err)
	}
	k := fleetKeys()
	k.Version, k.Floors = 2, map[string]uint64{"beyond": 5}
	if _, _, err := s.CheckKeys(signedText(k.Encode(), alice, bob), start); Name(err) != Malformed {
		t.Errorf("a floor of one line more: %v", err)
	}
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseState(text); err != nil {
		t.Errorf("a full state: %v", err)
	}
	s.Lines["beyond"] = Mark{}
	text, _ = s.Encode()
	if _, err := ParseState(text); Name(err) != Malformed {
		t.Errorf("a state with one line more: %v", err)
	}
}

// What is no document is refused by every method that takes one, and a node without keys says
// that it has none.
func TestNoDocuments(t *testing.T) {
	s, none := newNode(t, fleetKeys()), State{}
	p, r := arpPackage(), arpRevert()
	pack, order := signedText(p.Encode(), alice, bob), signedText(r.Encode(), alice, bob)
	for name, check := range map[string]func(s State, text []byte) error{
		"package": func(s State, text []byte) error { _, _, err := s.CheckPackage(text, arpFacts(), start); return err },
		"policy":  func(s State, text []byte) error { return s.CheckPolicy(text, arpFacts()) },
		"revert":  func(s State, text []byte) error { _, _, err := s.CheckRevert(text, arpFacts(), start); return err },
		"keys":    func(s State, text []byte) error { _, _, err := s.CheckKeys(text, start); return err },
		"pin":     func(s State, text []byte) error { _, _, err := s.Pin(text, start, false); return err },
	} {
		wrong := order
		if name == "revert" {
			wrong = pack
		}
		for what, text := range map[string][]byte{"no document": []byte("x\n"), "another kind of document": wrong} {
			if err := check(s, text); Name(err) != Malformed {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if err := check(none, pack); name != "pin" && Name(err) != Unpinned {
			t.Errorf("%s on a node without keys: %v", name, err)
		}
	}
	if _, _, err := none.Revoke(alice.ID(), start); Name(err) != Unpinned {
		t.Errorf("revoke on a node without keys: %v", err)
	}
	if _, err := Describe([]byte("x"), start); Name(err) != Malformed {
		t.Errorf("describe: %v", err)
	}
	if err := s.CheckPolicy(pack, arpFacts()); err != nil {
		t.Errorf("a policy as signed: %v", err)
	}
	if err := s.CheckPolicy(nil, arpFacts()); Name(err) != Unsigned {
		t.Errorf("a policy that nobody signed: %v", err)
	}
	if err := s.CheckPolicy(signedText(p.Encode(), alice), arpFacts()); Name(err) != Threshold {
		t.Errorf("a policy that one signed: %v", err)
	}
}

// Files of keys are read up to a size, and a key of another type signs nothing.
func TestOtherKeyFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	line := []byte(alice.String() + "\n")
	if k, err := ReadKey(file("key", line)); err != nil || k.ID() != alice.ID() || k.Name != "alice" {
		t.Errorf("%v, %v", k, err)
	}
	largest := append(bytes.Clone(line), bytes.Repeat([]byte("x"), MaxDocument-len(line))...)
	if _, err := ReadKey(file("largest", largest)); err == nil || strings.Contains(err.Error(), "bytes, more than") {
		t.Errorf("a file of the largest size: %v", err)
	}
	want := fmt.Sprintf("has %d bytes, more than %d", MaxDocument+1, MaxDocument)
	if _, err := ReadKey(file("larger", append(largest, 'x'))); Name(err) != Malformed || !strings.Contains(err.Error(), want) {
		t.Errorf("a larger file: %v", err)
	}
	if _, err := ReadKey(dir + "/none"); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if _, err := OpenSigner(dir+"/none", nil); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if _, err := OpenSigner(file("big", append(largest, 'x')), nil); Name(err) != Malformed {
		t.Errorf("a larger file: %v", err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "eve")
	if err != nil {
		t.Fatal(err)
	}
	path := file("ecdsa", pem.EncodeToMemory(block))
	_, err = OpenSigner(path, nil)
	refusedAs(t, "a key of another type", err, Malformed, path+" is not a key of type ssh-ed25519")
	public, err := CreateKey(filepath.Join(dir, "fresh"), strings.Repeat("n", maxWord), nil)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := ReadKey(filepath.Join(dir, "fresh.pub")); err != nil || k != public {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := CreateKey(filepath.Join(dir, "long"), strings.Repeat("n", maxWord+1), nil); err == nil || !strings.Contains(err.Error(), "at most 55 printable characters") {
		t.Errorf("a long name: %v", err)
	}
	if _, err := CreateKey(filepath.Join(dir, "none", "key"), "n", nil); err == nil {
		t.Error("a key in a folder that is not there")
	}
	if _, err := CreateKey(filepath.Join(dir, "key"), "n", nil); err == nil || !strings.Contains(err.Error(), "a key is never replaced") {
		t.Errorf("%v", err)
	}
	os.Remove(filepath.Join(dir, "key"))
	file("key.pub", line)
	if _, err := CreateKey(filepath.Join(dir, "key"), "n", nil); err == nil || !strings.Contains(err.Error(), "key.pub exists") {
		t.Errorf("%v", err)
	}
}
