// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDocumentsRoundTrip(t *testing.T) {
	p, r, k := arpPackage(), arpRevert(), fleetKeys()
	p.Widest, _ = ParsePolicy("all, except comm=sshd")
	p.ObjectsExist = "no queue is in use"
	k.Revoked, k.Floors = []string{mallory.ID()}, map[string]uint64{"arp": 3, "tcp": 4}
	gotP, err1 := ParsePackage(p.Encode())
	gotR, err2 := ParseRevert(r.Encode())
	gotK, err3 := ParseKeys(k.Encode())
	i := arpIncluded()
	gotI, err4 := ParseIncluded(i.Encode())
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || !bytes.Equal(gotI.Encode(), i.Encode()) {
		t.Fatal(err1, err2, err3, err4)
	}
	if !bytes.Equal(gotP.Encode(), p.Encode()) || !bytes.Equal(gotR.Encode(), r.Encode()) || !bytes.Equal(gotK.Encode(), k.Encode()) {
		t.Error("what was read is written in another way")
	}
	if gotP.ObjectsExist != p.ObjectsExist || gotP.Trial != p.Trial || !gotP.Expires.Equal(p.Expires) || gotK.Floors["tcp"] != 4 || gotK.Threshold != 2 || len(gotK.Keys) != 3 {
		t.Errorf("%+v %+v", gotP, gotK)
	}
}

// One text says one thing: whatever is written in another way is refused.
func TestDocumentsHaveOneForm(t *testing.T) {
	p, k := arpPackage(), fleetKeys()
	spoil := func(text []byte, from, to string) []byte {
		out := bytes.Replace(text, []byte(from), []byte(to), 1)
		if bytes.Equal(out, text) {
			t.Fatalf("%q is not in the document", from)
		}
		return out
	}
	for name, text := range map[string][]byte{
		"a later format":              spoil(p.Encode(), "skep-package 1", "skep-package 2"),
		"another kind":                spoil(p.Encode(), "skep-package", "skep-keys"),
		"a zero before a number":      spoil(p.Encode(), "sequence 7", "sequence 07"),
		"sequence 0":                  spoil(p.Encode(), "sequence 7", "sequence 0"),
		"a negative sequence":         spoil(p.Encode(), "sequence 7", "sequence -7"),
		"a blank at the end":          spoil(p.Encode(), "class any", "class any "),
		"a line feed of another kind": spoil(p.Encode(), "class any\n", "class any\r\n"),
		"a digest in capitals":        spoil(p.Encode(), contentA, strings.ToUpper(contentA)),
		"a short digest":              spoil(p.Encode(), contentA, contentA[1:]),
		"a local time":                spoil(p.Encode(), "2026-12-03T12:00:00Z", "2026-12-03T12:00:00+00:00"),
		"an end before the beginning": spoil(p.Encode(), "expires 2026-12-03", "expires 2026-11-03"),
		"an end in ten years":         spoil(p.Encode(), "expires 2026", "expires 2036"),
		"no trial":                    spoil(p.Encode(), "trial 600", "trial 0"),
		"a trial of 50 days":          spoil(p.Encode(), "trial 600", "trial 4320000"),
		"no policy":                   spoil(p.Encode(), "allow uid=1000\n", ""),
		"a policy in another order":   spoil(p.Encode(), "allow uid=1000\n", "allow uid=1000 comm=a\n"),
		"an unknown line":             append(p.Encode(), "bpf x\n"...),
		"objects without a reason":    spoil(p.Encode(), "allow uid", "objects-exist  \nallow uid"),
		"objects with blanks around":  spoil(p.Encode(), "allow uid", "objects-exist  a \nallow uid"),
		"objects behind the policy":   append(p.Encode(), "objects-exist a\n"...),
		"objects twice":               spoil(p.Encode(), "allow uid", "objects-exist a\nobjects-exist a\nallow uid"),
		"a line twice":                spoil(p.Encode(), "class any\n", "class any\nclass any\n"),
		"no last line feed":           bytes.TrimSuffix(p.Encode(), []byte("\n")),
		"capitals in a line's name":   spoil(p.Encode(), "line arp", "line Arp"),
		"an escape character":         spoil(p.Encode(), "class any", "class any\x1b"),
		"an escape in a task's name":  spoil(p.Encode(), "uid=1000", "comm=a\x1b[2J"),
		"a byte above ASCII":          spoil(p.Encode(), "uid=1000", "cgroup=/a\xff"),
		"no":                          []byte("no"),
		"nothing":                     nil,
	} {
		if _, err := ParsePackage(text); Name(err) != Malformed {
			t.Errorf("a package with %s: %v", name, err)
		}
	}
	i := arpIncluded()
	for name, text := range map[string][]byte{
		"a short build-id":       spoil(i.Encode(), "kernel ab", "kernel "),
		"no build-id":            spoil(i.Encode(), "kernel ab", "kernel xy"),
		"a build-id in capitals": spoil(i.Encode(), "kernel ab", "kernel AB"),
		"an odd version":         spoil(i.Encode(), "version 6.1.190-1", "version 6.1 190"),
		"no version":             spoil(i.Encode(), "version 6.1.190-1", "version "),
		"a long version":         spoil(i.Encode(), "version 6", "version "+strings.Repeat("6", 55)),
		"a sequence":             append(i.Encode(), "sequence 7\n"...),
	} {
		if _, err := ParseIncluded(text); Name(err) != Malformed {
			t.Errorf("a statement about a kernel with %s: %v", name, err)
		}
	}
	key := "key " + alice.Key.String() + "\n"
	for name, text := range map[string][]byte{
		"a key twice":               spoil(k.Encode(), key, key+key),
		"keys in another order":     append(spoil(k.Encode(), key, ""), key...),
		"a threshold above":         spoil(k.Encode(), "threshold 2", "threshold 4"),
		"a threshold of 0":          spoil(k.Encode(), "threshold 2", "threshold 0"),
		"version 0":                 spoil(k.Encode(), "version 1", "version 0"),
		"a key both valid and not":  append(k.Encode(), "revoked "+alice.ID()+"\n"...),
		"a revoked word":            append(k.Encode(), "revoked bob\n"...),
		"a floor of 0":              append(k.Encode(), "floor arp 0\n"...),
		"a floor without a number":  append(k.Encode(), "floor arp\n"...),
		"floors in another order":   append(k.Encode(), "floor b 1\nfloor a 1\n"...),
		"a key of another type":     spoil(k.Encode(), "ssh-ed25519", "ssh-rsa"),
		"a key with other bytes":    spoil(k.Encode(), "key ssh-ed25519 AAAAC3", "key ssh-ed25519 AAAAC4"),
		"two names of a key":        spoil(k.Encode(), key, key+"key "+strings.Replace(alice.Key.String(), "alice", "alice2", 1)+"\n"),
		"a name with an odd letter": spoil(k.Encode(), " alice", " al\x7fice"),
	} {
		if _, err := ParseKeys(text); Name(err) != Malformed {
			t.Errorf("a document of keys with %s: %v", name, err)
		}
	}
}

func TestSignaturesHaveOneForm(t *testing.T) {
	p := arpPackage()
	whole := signedText(p.Encode(), alice, bob)
	if s, err := ParseSigned(whole); err != nil || !bytes.Equal(s.Encode(), whole) || len(s.Signatures) != 2 {
		t.Fatal(err)
	}
	begin := bytes.Index(whole, []byte(sigBegin))
	half := begin + (len(whole)-begin)/2
	for name, text := range map[string][]byte{
		"no empty line":         bytes.Replace(whole, []byte("\n\n"), []byte("\n"), 1),
		"the other order":       append(append(bytes.Clone(whole[:begin]), whole[half:]...), whole[begin:half]...),
		"other line lengths":    bytes.Replace(whole, []byte("SIGNATURE-----\nU1NI"), []byte("SIGNATURE-----\nU1N\nI"), 1),
		"a truncated signature": whole[:len(whole)-5],
		"a comment":             append(bytes.Clone(whole), "# hello\n"...),
		"the namespace of keys": bytes.Replace(whole, []byte("skep-package"), []byte("skep-keys"), 1),
		"two line feeds more":   append(bytes.Clone(whole), "\n\n"...),
		"a mebibyte":            append(bytes.Clone(whole), make([]byte, 1<<20)...),
	} {
		if _, err := ParseSigned(text); Name(err) != Malformed {
			t.Errorf("a document with %s: %v", name, err)
		}
	}
	long := &Signed{Text: []byte("skep-package 1\n" + strings.Repeat("x\n", MaxDocument/2))}
	long.Sign(alice)
	if _, err := ParseSigned(long.Encode()); Name(err) != Malformed {
		t.Errorf("a document that is too long: %v", err)
	}
	k := fleetKeys()
	other := &Signed{Text: k.Encode()}
	other.Sign(bob)
	mine := &Signed{Text: p.Encode()}
	if _, err := mine.Add([]byte(other.Signatures[0].armor(kindPackage))); Name(err) != Threshold {
		t.Errorf("a signature of another text: %v", err)
	}
	if _, err := mine.Add([]byte(other.Signatures[0].armor(kindKeys))); Name(err) != Malformed || len(mine.Signatures) > 0 {
		t.Errorf("a signature of another kind: %v", err)
	}
	many := &Signed{Text: p.Encode()}
	for n := range maxKeys + 1 {
		many.Sign(operator(string(rune('A' + n))))
	}
	if _, err := ParseSigned(many.Encode()); Name(err) != Malformed {
		t.Errorf("more signatures than a document can have: %v", err)
	}
	once := &Signed{Text: p.Encode()}
	once.Sign(alice)
	once.Sign(alice)
	if len(once.Signatures) != 1 {
		t.Error("one key signed twice")
	}
}

// ssh-keygen of OpenSSH verifies our signatures, and we verify those that it makes with
// keys of either.
func TestSignaturesOfOpenSSH(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ssh := func(input []byte, args ...string) (string, error) {
		c := exec.Command(program, args...)
		c.Dir, c.Stdin = dir, bytes.NewReader(input)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	ours, err := CreateKey(path("ours"), "ours", nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := ssh(nil, "-q", "-t", "ed25519", "-N", "", "-C", "theirs", "-f", "theirs"); err != nil {
		t.Fatal(out, err)
	}
	theirs, err := ReadKey(path("theirs.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]Key{"ours": ours, "theirs": theirs} {
		if out, err := ssh(nil, "-l", "-f", name+".pub"); err != nil || !strings.Contains(out, key.ID()) {
			t.Errorf("ssh-keygen -l says %q, and we %s", out, key.ID())
		}
		signer, err := OpenSigner(path(name), nil)
		if err != nil || signer.ID() != key.ID() {
			t.Fatal(name, err)
		}
		p := arpPackage()
		doc := &Signed{Text: p.Encode()}
		doc.Sign(signer)
		write("allowed", name+" "+key.String()+"\n")
		write("ours.sig", doc.Signatures[0].armor(kindPackage))
		if out, err := ssh(doc.Text, "-Y", "verify", "-f", "allowed", "-I", name, "-n", kindPackage, "-s", "ours.sig"); err != nil {
			t.Errorf("ssh-keygen does not verify what %s signed: %s", name, out)
		}
		write("text", string(doc.Text))
		os.Remove(path("text.sig"))
		if out, err := ssh(nil, "-Y", "sign", "-f", name, "-n", kindPackage, "text"); err != nil {
			t.Fatal(out, err)
		}
		armor, err := os.ReadFile(path("text.sig"))
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSigned(append(append(bytes.Clone(doc.Text), '\n'), armor...))
		if err != nil || len(back.Signatures) != 1 || !back.valid(back.Signatures[0]) || back.Signatures[0].ID() != key.ID() {
			t.Errorf("what ssh-keygen signed with %s is not valid: %v", name, err)
		}
	}
}

// An expired document of keys can be replaced by a newer one; what it revoked stays so.
func TestKeysAreRotated(t *testing.T) {
	s := newNode(t, fleetKeys())
	later := start.Add(40 * 24 * time.Hour)
	dave := operator("dave")
	k := fleetKeys()
	k.Version, k.Signed, k.Expires = 5, later, later.Add(24*time.Hour)
	k.Keys, k.Revoked = []Key{alice.Key, carol.Key, dave.Key}, []string{bob.ID()}
	s, _, err := s.CheckKeys(signedText(k.Encode(), alice, carol), later)
	if err != nil {
		t.Fatal(err)
	}
	p := arpPackage()
	p.Signed, p.Expires = later, later.Add(time.Hour)
	if _, _, err := s.CheckPackage(signedText(p.Encode(), alice, dave), arpFacts(), later); err != nil {
		t.Error("the new key does not count:", err)
	}
	k.Version, k.Keys, k.Revoked = 6, []Key{alice.Key, bob.Key, carol.Key}, nil
	s, _, err = s.CheckKeys(signedText(k.Encode(), alice, carol), later)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), later); Name(err) != Threshold {
		t.Error("a key that was revoked came back:", err)
	}
}

// Root of the node revokes a key at once, and is told how many are left.
func TestRootRevokes(t *testing.T) {
	s, left, err := newNode(t, fleetKeys()).Revoke(bob.ID(), start)
	if err != nil || left != 2 {
		t.Fatal(left, err)
	}
	p := arpPackage()
	_, _, err = s.CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), start)
	refusedAs(t, "a key that root revoked", err, Threshold, "1 of the 2 signatures that are needed count: "+bob.ID()+" is revoked (2026-11-26T12:00:00Z, by root of this node)")
	if _, _, err := s.Revoke(mallory.ID(), start); Name(err) != Malformed {
		t.Errorf("a key that is not trusted: %v", err)
	}
}

// Root may pin an older document again; sequences that were seen stay seen.
func TestPinKeepsWhatWasSeen(t *testing.T) {
	s := newNode(t, fleetKeys())
	p := arpPackage()
	s, _, err := s.CheckPackage(signedText(p.Encode(), alice, bob), arpFacts(), start)
	if err != nil {
		t.Fatal(err)
	}
	k := fleetKeys()
	text := signedText(k.Encode(), alice, bob)
	if s, _, err = s.Pin(text, start, false); err != nil || s.Lines["arp"].Sequence != 7 {
		t.Errorf("%+v, %v", s.Lines, err)
	}
	s.Seen = start.Add(time.Hour).Unix()
	if _, _, err := s.Pin(text, start, false); Name(err) != Clock {
		t.Errorf("a clock that was set back: %v", err)
	}
	if s, _, err = s.Pin(text, start, true); err != nil || s.Seen != start.Unix() {
		t.Errorf("--forget-time: %v", err)
	}
}

func FuzzParseSigned(f *testing.F) {
	p, r, k, i := arpPackage(), arpRevert(), fleetKeys(), arpIncluded()
	for _, text := range [][]byte{p.Encode(), r.Encode(), k.Encode(), i.Encode()} {
		f.Add(signedText(text, alice, bob))
	}
	s := newNode(f, fleetKeys())
	f.Fuzz(func(t *testing.T, b []byte) {
		doc, err := ParseSigned(b)
		if err != nil {
			return
		}
		if !bytes.Equal(doc.Encode(), b) {
			t.Fatalf("%q is written as %q", b, doc.Encode())
		}
		if p, err := ParsePackage(doc.Text); err == nil && !bytes.Equal(p.Encode(), doc.Text) {
			t.Fatal("a package has two forms")
		}
		if v, err := ParseRevert(doc.Text); err == nil && !bytes.Equal(v.Encode(), doc.Text) {
			t.Fatal("a revert has two forms")
		}
		if i, err := ParseIncluded(doc.Text); err == nil && !bytes.Equal(i.Encode(), doc.Text) {
			t.Fatal("a statement about a kernel has two forms")
		}
		if k, err := ParseKeys(doc.Text); err == nil && !bytes.Equal(k.Encode(), doc.Text) {
			t.Fatal("keys have two forms")
		}
		if _, v, err := s.CheckPackage(b, arpFacts(), start); err == nil && (v.Package.Content != contentA || len(v.Signers) < 2) {
			t.Fatalf("%q was taken", b)
		}
	})
}
