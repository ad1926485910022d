// SPDX-License-Identifier: MIT

package ident

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

// checkErrorText checks that an error has this text.
func checkErrorText(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// blockPath creates a folder that no file can replace and that cannot be removed.
func blockPath(t *testing.T, path ...string) {
	t.Helper()
	os.Remove(filepath.Join(path...))
	if err := os.MkdirAll(filepath.Join(append(path, "below")...), 0o700); err != nil {
		t.Fatal(err)
	}
}

// Certificates are valid for their purpose and their lifetime. Clocks may differ by an hour.
func TestCertificates(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	admitNode(t, ca, n)
	server, err := ca.serverCertificate(time.Now(), Rank{})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(server.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cert  *x509.Certificate
		days  float64
		usage x509.KeyUsage
		ca    bool
	}{
		"CA":   {ca.cert, ca.cert.NotBefore.Add(time.Hour).AddDate(20, 0, 0).Sub(ca.cert.NotBefore.Add(time.Hour)).Hours() / 24, x509.KeyUsageCertSign | x509.KeyUsageCRLSign, true},
		"node": {n.cert, 90, x509.KeyUsageDigitalSignature, false},
		"hub":  {leaf, 365, x509.KeyUsageDigitalSignature, false},
	} {
		life := c.cert.NotAfter.Sub(c.cert.NotBefore) - time.Hour
		if life.Hours() != c.days*24 || c.cert.KeyUsage != c.usage || c.cert.IsCA != c.ca || c.cert.SerialNumber.BitLen() < 64 {
			t.Errorf("%s: for %v, usage %v, CA %v", name, life, c.cert.KeyUsage, c.cert.IsCA)
		}
		if c.ca != (c.cert.MaxPathLenZero && c.cert.BasicConstraintsValid) {
			t.Errorf("%s: it may sign other authorities", name)
		}
	}
	host, _ := os.Hostname()
	if !slices.Contains(leaf.DNSNames, host) || !slices.Contains(leaf.DNSNames, ServerName) || leaf.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("the hub is %q, %v", leaf.DNSNames, leaf.IPAddresses)
	}
}

// The hub's own certificate is replaced after half of its life.
func TestServerCertificateIsReplaced(t *testing.T) {
	s := &server{ca: openCA(t, t.TempDir()), now: time.Now}
	get := func() *tls.Certificate {
		c, err := s.certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	s.made = s.made.Add(-182 * day)
	if get() != first {
		t.Error("a certificate of 182 days was replaced")
	}
	s.made = s.made.Add(-13 * time.Hour)
	if get() == first {
		t.Error("a certificate of 182.5 days is still shown")
	}
}

// Only a verified certificate of a node identifies it.
func TestPeerNode(t *testing.T) {
	const id = "abcdefghijklmn23"
	state := func(id string, units ...string) tls.ConnectionState {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: id, OrganizationalUnit: units}}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	unverified, nobody := state(id, "node"), state(id, "node")
	unverified.VerifiedChains, nobody.PeerCertificates = nil, nil
	for name, c := range map[string]struct {
		state tls.ConnectionState
		ok    bool
	}{
		"a node": {state(id, "node"), true}, "not verified": {unverified, false}, "without a certificate": {nobody, false},
		"of no unit": {state(id), false}, "of another unit": {state(id, "hub"), false},
		"of two units": {state(id, "node", "hub"), false}, "of a bad id": {state("hub", "node"), false},
	} {
		if got, ok := PeerNode(c.state); ok != c.ok || ok && got != id || !ok && got != "" {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for id, ok := range map[string]bool{id: true, id[1:]: false, id + "a": false, "1" + id[1:]: false} {
		if validID(id) != ok {
			t.Errorf("%q is an id: %v", id, !ok)
		}
	}
}

func makeRequest(t *testing.T, key crypto.Signer) []byte {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// The error for a refused certificate request says why.
func TestSignSaysWhy(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	larger, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	good, _ := n.CSR()
	forged := slices.Clone(good)
	forged[len(forged)-1] ^= 1
	for _, c := range []struct {
		csr      []byte
		id, want string
	}{
		{[]byte("garbage"), n.ID(), "request cannot be read"}, {forged, n.ID(), "not signed by its key"},
		{makeRequest(t, edwards), n.ID(), "other than P-256"}, {makeRequest(t, larger), n.ID(), "other than P-256"},
		{good, "hub", `"hub" is not a node id`},
	} {
		_, err := ca.Sign(c.csr, c.id)
		checkErrorText(t, c.want, err, c.want)
	}
}

// A damaged CA is not used. An interrupted first start is continued.
func TestCAErrors(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	first := openCA(t, dir)
	if again := openCA(t, dir); again.Digest() != first.Digest() {
		t.Error("a restart made another CA")
	}
	openCA(t, other)
	foreign, _ := os.ReadFile(filepath.Join(other, "ca.crt"))
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	der, _ := x509.MarshalPKCS8PrivateKey(edwards)
	crt, key := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	own, _ := os.ReadFile(key)
	os.WriteFile(crt, foreign, 0o600)
	_, err := OpenCA(dir)
	checkErrorText(t, "another CA's certificate", err, "restore both from one backup")
	writePEM(crt, "CERTIFICATE", []byte("no DER"))
	_, err = OpenCA(dir)
	checkErrorText(t, "no certificate", err, "restore both from one backup")
	writePEM(key, "PRIVATE KEY", der)
	_, err = OpenCA(dir)
	checkErrorText(t, "another kind of key", err, "holds no P-256 key")
	os.WriteFile(key, foreign, 0o600)
	_, err = OpenCA(dir)
	checkErrorText(t, "a certificate for a key", err, "ca.key is damaged")
	os.WriteFile(key, own, 0o600)
	os.Remove(crt)
	if openCA(t, dir).Digest() == first.Digest() {
		t.Error("the certificate was not there")
	}
	for _, name := range []string{"ca.lock", "ca.key", "ca.crt"} {
		dir := t.TempDir()
		blockPath(t, dir, name)
		if _, err := OpenCA(dir); err == nil {
			t.Errorf("%s is a folder", name)
		}
	}
	_, err = OpenCA(filepath.Join(key, "below"))
	checkErrorText(t, "no directory", err, "--state")
}

// A lock has one owner, and leaves nothing open when it is refused.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(filepath.Join(name, "below")); err == nil {
		t.Error("a lock without a directory")
	}
	unlock, err := TryLock(name)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	files := countOpenFiles(name)
	_, err = TryLock(name)
	checkErrorText(t, "a second owner", err, "cannot be locked")
	if n := countOpenFiles(name); n != files {
		t.Errorf("%d files are open, %d before", n, files)
	}
	unlock()
	if unlock, err = lockFile(name); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// countOpenFiles counts this process's descriptors of a file.
func countOpenFiles(name string) (n int) {
	list, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range list {
		if to, _ := os.Readlink(fd); to == name {
			n++
		}
	}
	return n
}

func TestMachineID(t *testing.T) {
	dir := t.TempDir()
	none, some, folder := filepath.Join(dir, "none"), filepath.Join(dir, "some"), filepath.Join(dir, "folder")
	os.WriteFile(some, []byte(" id\n"), 0o600)
	blockPath(t, folder)
	for _, c := range []struct {
		names []string
		want  string
		ok    bool
	}{{[]string{none, some}, "id", true}, {[]string{some, folder}, "id", true}, {[]string{none}, "", true}, {[]string{folder, some}, "", false}} {
		if id, err := readInstallID(c.names...); id != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %q, %v", c.names, id, err)
		}
	}
	if physicalCard("lo") || physicalCard("no such card") {
		t.Error("what has no device is a physical card")
	}
	install, _ := installID()
	if m, err := ThisMachine(); err != nil || m.Install != hashText(install) {
		t.Errorf("%+v, %v", m, err)
	}
}

// An identity is created, stored and replaced as a whole or not at all.
func TestIdentityErrors(t *testing.T) {
	elsewhere := Machine{"j", nil}
	for _, name := range []string{"identity.lock", "identity.json", "admission.json"} {
		dir := t.TempDir()
		blockPath(t, dir, name)
		if _, err := OpenNode(dir, here); err == nil {
			t.Errorf("%s is a folder", name)
		}
	}
	for _, name := range []string{"cloned", "admission.json", "identity.other"} {
		dir := t.TempDir()
		n := openNode(t, dir, here)
		blockPath(t, dir, name)
		if _, err := OpenNode(dir, elsewhere); err == nil {
			t.Errorf("a copied disk, %s is a folder", name)
		}
		os.RemoveAll(filepath.Join(dir, name))
		os.Remove(filepath.Join(dir, "cloned"))
		if again := openNode(t, dir, here); again.ID() != n.ID() {
			t.Errorf("%s was a folder: the identity is lost", name)
		}
	}
	_, err := OpenNode(filepath.Join(os.DevNull, "state"), here)
	checkErrorText(t, "no directory", err, "--state")
	if _, err := (&Node{dir: filepath.Join(t.TempDir(), "none")}).makeIdentity(here); err == nil {
		t.Error("an identity was not kept, and nobody knows")
	}
}

// Keys of another type are reported as damage.
func TestIdentityOfOtherKeys(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, dir, here)
	s, err := n.readIdentity()
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	account, _ := nkeys.CreateAccount()
	seed, _ := account.Seed()
	key, account1 := s, s
	key.Key, _ = x509.MarshalPKCS8PrivateKey(edwards)
	account1.Seed = string(seed)
	for name, s := range map[string]stored{"key": key, "seed": account1} {
		b, _ := json.Marshal(s)
		os.WriteFile(n.pathOf("identity.json"), b, 0o600)
		_, err := OpenNode(dir, here)
		checkErrorText(t, "another "+name, err, "identity.json is damaged: remove "+dir)
	}
}

// A hub's admission is stored, or refused with a reason.
func TestAdmissionErrors(t *testing.T) {
	ca, other, dir := openCA(t, t.TempDir()), openCA(t, t.TempDir()), t.TempDir()
	n := openNode(t, dir, here)
	csr, _ := n.CSR()
	cert, _ := ca.Sign(csr, n.ID())
	theirs, _ := other.Sign(csr, n.ID())
	renamed, _ := ca.Sign(csr, "abcdefghijklmn23")
	good := Admission{Hub: "h", Certificate: cert, CA: ca.DER()}
	for _, c := range []struct {
		a    Admission
		want string
	}{
		{Admission{CA: ca.DER()}, "certificate for this node cannot be read"},
		{Admission{Certificate: cert}, "the hub's CA cannot be read"},
		{Admission{Certificate: renamed, CA: ca.DER()}, "is not for this node"},
		{Admission{Certificate: theirs, CA: ca.DER()}, "is not for this node"},
	} {
		checkErrorText(t, c.want, n.Admit(c.a), c.want)
	}
	if !n.Expires().IsZero() || n.RenewDue(time.Now().AddDate(1, 0, 0)) || n.Admitted() {
		t.Error("it was admitted")
	}
	if err := n.Admit(good); err != nil || !n.Admitted() {
		t.Fatal(err)
	}
	if err := n.Admit(Admission{Hub: "h", Certificate: theirs, CA: other.DER()}); err != ErrWrongHub {
		t.Errorf("another CA at the same address: %v", err)
	}
	if err := n.Admit(Admission{Hub: "g", Certificate: theirs, CA: other.DER()}); err != nil {
		t.Errorf("another hub: %v", err)
	}
	for _, name := range []string{"cloned", "admission.json"} {
		blockPath(t, dir, name)
		if n.Admit(good) == nil {
			t.Errorf("%s is a folder", name)
		}
		os.RemoveAll(n.pathOf(name))
	}
	b, _ := json.Marshal(Admission{Hub: "h", Certificate: renamed, CA: ca.DER()})
	os.WriteFile(n.pathOf("admission.json"), b, 0o600)
	_, err := OpenNode(dir, here)
	checkErrorText(t, "another node's admission", err, "admission.json is damaged")
}

// A certificate is renewed after 30 days and ends with its date.
func TestExpiry(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	admitNode(t, ca, n)
	made := n.Expires().Add(-90 * day)
	if n.RenewDue(made.Add(30*day-time.Minute)) || !n.RenewDue(made.Add(30*day+time.Minute)) {
		t.Error("due at the wrong time")
	}
	old := *n.cert
	old.NotAfter = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	n.cert = &old
	_, err := n.TLS()
	checkErrorText(t, "an old certificate", err, "expired on 2001-02-03")
}

// The hub's owner can list and remove tokens. For 30 days an expired token is reported as expired.
func TestTokenStore(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenTokens(dir, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	for _, life := range []time.Duration{0, -time.Hour} {
		_, err := s.New(1, life)
		checkErrorText(t, "no life", err, "a time to live")
	}
	long, _ := s.New(1, 2*time.Hour)
	short, _ := s.New(3, time.Hour)
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].ID != fmt.Sprintf("%x", short.ID) || list[0].Uses != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := s.Remove("none"); err != ErrTokenUnknown {
		t.Errorf("%v", err)
	}
	if err := s.Remove(fmt.Sprintf("%x", long.ID)); err != nil || s.Redeem(long.String()) != ErrTokenUnknown {
		t.Errorf("a removed token: %v", err)
	}
	expires := now.Add(time.Hour)
	now = expires
	if err := s.Redeem(short.String()); err != nil {
		t.Errorf("in its last moment: %v", err)
	}
	for _, c := range []struct {
		late time.Duration
		want error
	}{{time.Second, ErrTokenExpired}, {30 * day, ErrTokenExpired}, {30*day + time.Second, ErrTokenUnknown}} {
		now = expires.Add(c.late)
		s.New(1, time.Hour) // forgets
		if err := s.Redeem(short.String()); err != c.want {
			t.Errorf("%v late: %v", c.late, err)
		}
	}
	os.WriteFile(s.file, []byte(`{"aa": null}`), 0o600)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("no token: %v, %v", list, err)
	}
	os.WriteFile(s.file, []byte("no JSON"), 0o600)
	_, err = s.List()
	checkErrorText(t, "damage", err, "tokens.json is damaged")
	blockPath(t, s.file)
	if s.Redeem(short.String()) == nil || errors.Is(s.Redeem(short.String()), ErrTokenUnknown) {
		t.Error("a file that cannot be read has no tokens")
	}
	blockPath(t, s.file+".lock")
	if _, err := s.New(1, time.Hour); err == nil {
		t.Error("a token was made without the lock")
	}
	_, err = OpenTokens(filepath.Join(os.DevNull, "state"), [32]byte{})
	checkErrorText(t, "no directory", err, "--state")
}

// Only the owner can read a state directory and the parents that were created for it.
func TestStateDirIsPrivate(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	dir := filepath.Join(above, "state")
	for range 2 {
		if err := StateDir(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{above, dir} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		os.Chmod(dir, 0o755) // a folder that existed before
	}
}
