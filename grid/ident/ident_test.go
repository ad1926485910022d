// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/internal/load"
)

func openCA(t *testing.T, dir string) *CA {
	t.Helper()
	ca, err := OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

var here = Machine{Install: "i", Cards: []string{"a", "b"}}

func openNode(t *testing.T, dir string, m Machine) *Node {
	t.Helper()
	n, err := OpenNode(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// admitNode admits a node like a hub.
func admitNode(t *testing.T, ca *CA, n *Node) {
	t.Helper()
	csr, err := n.CSR()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Sign(csr, NodeID(n.NKey()))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Admit(Admission{Hub: "h:1", Certificate: cert, CA: ca.DER(), UserJWT: "j"}); err != nil {
		t.Fatal(err)
	}
}

// handshake does a TLS handshake and sends one byte over loopback; it returns what each side got.
func handshake(t *testing.T, hub, node *tls.Config) (state tls.ConnectionState, hubErr, nodeErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := l.Accept()
		if err != nil {
			hubErr = err
			return
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(load.Stretch(10 * time.Second)))
		c := tls.Server(raw, hub)
		if hubErr = c.Handshake(); hubErr == nil {
			state = c.ConnectionState()
			_, hubErr = c.Write([]byte("x"))
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(load.Stretch(10 * time.Second)))
	c := tls.Client(raw, node)
	if nodeErr = c.Handshake(); nodeErr == nil {
		// With TLS 1.3 a refusal of the client's certificate arrives here.
		_, nodeErr = io.ReadFull(c, make([]byte, 1))
	}
	raw.Close()
	<-done
	return state, hubErr, nodeErr
}

func hubTLS(t *testing.T, ca *CA) *tls.Config {
	t.Helper()
	c, err := ca.HubTLS("http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestJoinThenMutualTLS(t *testing.T) {
	ca, dir := openCA(t, t.TempDir()), t.TempDir()
	n := openNode(t, dir, here)
	if _, err := n.TLS(); !errors.Is(err, ErrNotAdmitted) {
		t.Fatalf("before joining: %v", err)
	}
	state, hubErr, nodeErr := handshake(t, hubTLS(t, ca), JoinTLS(Token{CA: ca.Digest()}, "http/1.1"))
	if hubErr != nil || nodeErr != nil {
		t.Fatal(hubErr, nodeErr)
	}
	if id, ok := PeerNode(state); ok {
		t.Fatalf("who has yet to join is taken for %s", id)
	}
	admitNode(t, ca, n)
	for _, m := range []*Node{n, openNode(t, dir, here)} { // and after a restart
		c, err := m.TLS("http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		state, hubErr, nodeErr = handshake(t, hubTLS(t, ca), c)
		if id, ok := PeerNode(state); hubErr != nil || nodeErr != nil || !ok || id != n.ID() {
			t.Fatalf("%q, %v, %v, %v", id, ok, hubErr, nodeErr)
		}
	}
}

func TestUnauthenticatedPeersAreRefused(t *testing.T) {
	ca, other := openCA(t, t.TempDir()), openCA(t, t.TempDir())
	if _, _, err := handshake(t, hubTLS(t, ca), JoinTLS(Token{CA: other.Digest()})); !errors.Is(err, ErrWrongHub) {
		t.Errorf("joining the wrong hub: %v", err)
	}
	n := openNode(t, t.TempDir(), here)
	admitNode(t, other, n)
	c, err := n.TLS()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := handshake(t, hubTLS(t, ca), c); err == nil {
		t.Error("a node trusts another hub")
	}
	// A node that trusts the hub but has a certificate of another.
	pinned := JoinTLS(Token{CA: ca.Digest()})
	pinned.GetClientCertificate = c.GetClientCertificate
	if state, hubErr, _ := handshake(t, hubTLS(t, ca), pinned); hubErr == nil {
		id, ok := PeerNode(state)
		t.Errorf("a node of another hub came in as %q %v", id, ok)
	}
	// A node must not be accepted as the hub.
	member := openNode(t, t.TempDir(), here)
	admitNode(t, ca, member)
	mc, _ := member.TLS()
	cert, _ := mc.GetClientCertificate(nil)
	cert.Certificate = append(cert.Certificate, ca.DER())
	fake := &tls.Config{Certificates: []tls.Certificate{*cert}}
	if _, _, err := handshake(t, fake, JoinTLS(Token{CA: ca.Digest()})); err == nil {
		t.Error("a node passed for the hub of a joining one")
	}
	if _, _, err := handshake(t, fake, mc); err == nil {
		t.Error("a node passed for the hub of another node")
	}
}

func TestSignRefuses(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	csr, _ := n.CSR()
	if _, err := ca.Sign(csr, "../hub"); err == nil {
		t.Error("signed for an id that is none")
	}
	csr[len(csr)-1] ^= 1
	if _, err := ca.Sign(csr, n.ID()); err == nil {
		t.Error("signed a request that its key did not")
	}
	if _, err := ca.Sign([]byte("garbage"), n.ID()); err == nil {
		t.Error("signed garbage")
	}
}

func TestAdmitRefusesWhatIsNotItsOwn(t *testing.T) {
	ca, a, b := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here), openNode(t, t.TempDir(), here)
	csr, _ := b.CSR()
	cert, err := ca.Sign(csr, b.ID())
	if err != nil {
		t.Fatal(err)
	}
	if a.Admit(Admission{Certificate: cert, CA: ca.DER()}) == nil || a.Admitted() {
		t.Error("another node's certificate was taken")
	}
	if b.Admit(Admission{Certificate: cert, CA: openCA(t, t.TempDir()).DER()}) == nil {
		t.Error("a CA that did not sign was taken")
	}
}

func TestRenewal(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	admitNode(t, ca, n)
	now := time.Now()
	if n.RenewDue(now.Add((RenewDays-1)*day)) || !n.RenewDue(now.Add((RenewDays+1)*day)) {
		t.Errorf("due at the wrong time; it expires %v", n.Expires())
	}
	c, _ := n.TLS()
	before, _ := c.GetClientCertificate(nil)
	admitNode(t, ca, n)
	after, _ := c.GetClientCertificate(nil)
	if string(before.Certificate[0]) == string(after.Certificate[0]) {
		t.Error("the old certificate is still shown")
	}
}

func TestCopiedDiskGetsItsOwnIdentity(t *testing.T) {
	ca, dir := openCA(t, t.TempDir()), t.TempDir()
	n := openNode(t, dir, here)
	admitNode(t, ca, n)
	if m := openNode(t, dir, Machine{"i", []string{"b", "dock"}}); m.ID() != n.ID() || m.Cloned() {
		t.Error("a network card more made it another machine")
	}
	elsewhere := Machine{"i", []string{"z"}}
	for range 2 { // the error is the same after a restart
		m := openNode(t, dir, elsewhere)
		if m.ID() == n.ID() || !m.Cloned() || !errors.Is(m.Why(), ErrCloned) {
			t.Fatalf("the copy is %s like the other, %v", m.ID(), m.Why())
		}
	}
	m := openNode(t, dir, elsewhere)
	admitNode(t, ca, m)
	if m.Cloned() || openNode(t, dir, elsewhere).Why() != nil {
		t.Error("the copy has joined but does not know")
	}
	if (Machine{"i", nil}).IsSame(Machine{"j", nil}) || !(Machine{"i", nil}).IsSame(here) {
		t.Error("machines without cards are compared wrongly")
	}
	if _, err := ThisMachine(); err != nil {
		t.Error(err)
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ca := openCA(t, dir)
	admitNode(t, ca, openNode(t, dir, here))
	tokens, _ := OpenTokens(dir, ca.Digest())
	token, err := tokens.New(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	files, _ := os.ReadDir(dir)
	if len(files) < 5 {
		t.Errorf("%v", files)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f.Name(), info.Mode(), err)
		}
	}
	b, _ := os.ReadFile(filepath.Join(dir, "tokens.json"))
	if strings.Contains(string(b), token.String()[20:40]) {
		t.Error("the token itself lies in the file")
	}
}

func TestDamagedFilesSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, dir)
	admitNode(t, ca, openNode(t, dir, here))
	tokens, _ := OpenTokens(dir, ca.Digest())
	tokens.New(1, time.Hour)
	for file, use := range map[string]func() error{
		"tokens.json":    func() error { _, err := tokens.New(1, time.Hour); return err },
		"admission.json": func() error { _, err := OpenNode(dir, here); return err },
		"identity.json":  func() error { _, err := OpenNode(dir, here); return err },
		"ca.crt":         func() error { _, err := OpenCA(dir); return err },
		"ca.key":         func() error { _, err := OpenCA(dir); return err },
	} {
		name := filepath.Join(dir, file)
		original, _ := os.ReadFile(name)
		os.WriteFile(name, []byte("damage"), 0o600)
		if err := use(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
		os.WriteFile(name, original, 0o600)
		if err := use(); err != nil {
			t.Errorf("%s is whole again: %v", file, err)
		}
	}
	name := filepath.Join(dir, "identity.json")
	original, _ := os.ReadFile(name)
	for _, part := range []string{`"key": "`, `"seed": "`} {
		text := strings.Replace(string(original), part, part+"AAAA", 1)
		os.WriteFile(name, []byte(text), 0o600)
		if _, err := OpenNode(dir, here); err == nil || !strings.Contains(err.Error(), "identity.json is damaged") {
			t.Errorf("damage behind %s: %v", part, err)
		}
	}
	os.Remove(filepath.Join(dir, "ca.key"))
	if _, err := OpenCA(dir); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("a lost key: %v", err)
	}
}

func TestTokens(t *testing.T) {
	dir, ca := t.TempDir(), [32]byte{1}
	s, err := OpenTokens(dir, ca)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	token := func(uses int) string {
		t.Helper()
		k, err := s.New(uses, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return k.String()
	}
	check := func(what, text string, want error) {
		t.Helper()
		if err := s.Redeem(text); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	two, late := token(2), token(5)
	if k, err := ParseToken("  " + strings.ToUpper(two) + "\n"); err != nil || k.String() != two {
		t.Errorf("%v, %v", k, err)
	}
	check("first use", two, nil)
	check("second use", two, nil)
	check("third use", two, ErrTokenUsedUp)
	k, _ := ParseToken(late)
	k.Secret[0] ^= 1
	check("wrong secret", k.String(), ErrTokenUnknown)
	k, _ = ParseToken(late)
	k.ID[0] ^= 1
	check("unknown id", k.String(), ErrTokenUnknown)
	k, _ = ParseToken(late)
	k.CA[0] ^= 1
	check("other hub", k.String(), ErrWrongHub)
	for _, bad := range []string{"", "skep1.", "skep2." + late[6:], late[:len(late)-2], late + "aa", "skep1.!" + late[7:], strings.Repeat("a", 1<<16)} {
		check("form", bad, ErrTokenForm)
	}
	now = now.Add(2 * time.Hour)
	check("late", late, ErrTokenExpired)
	now = now.Add(31 * day)
	token(1)
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("old tokens are kept: %+v, %v", list, err)
	}
	if _, err := s.New(0, time.Hour); err == nil {
		t.Error("a token for nobody was made")
	}
}

// Two stores share the file, like `skep token` and the hub.
func TestTokenUsesAreCountedOnce(t *testing.T) {
	dir := t.TempDir()
	first, _ := OpenTokens(dir, [32]byte{})
	token, err := first.New(5, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	good := 0
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			s, err := OpenTokens(dir, [32]byte{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Redeem(token.String()); err == nil {
				mu.Lock()
				good++
				mu.Unlock()
			} else if !errors.Is(err, ErrTokenUsedUp) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if good != 5 {
		t.Errorf("%d uses of 5", good)
	}
}

func TestIDs(t *testing.T) {
	n := openNode(t, t.TempDir(), here)
	if !validID(n.ID()) || n.ID() != NodeID(n.NKey()) || validID("hub") || validID(strings.ToUpper(n.ID())) {
		t.Errorf("%q", n.ID())
	}
	if sig, err := n.Sign([]byte("nonce")); err != nil || len(sig) == 0 {
		t.Errorf("%x, %v", sig, err)
	}
}

func TestStateDirSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	if err := StateDir(filepath.Join(file, "state")); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Errorf("%v", err)
	}
}

// Fingerprints are stored, so every release must compute the same one.
func TestFingerprintStays(t *testing.T) {
	if h := hashText("install"); h != "86d93331ddb3ef3c986c78a172741f7b" {
		t.Errorf("%s", h)
	}
}

// A system that is starting answers later. One that never answers is reported.
func TestFingerprintWaitsForTheSystem(t *testing.T) {
	var waited time.Duration
	pause := func(d time.Duration) { waited += d }
	asked := 0
	serial, err := readAtStart(pause, func() (uint32, error) {
		if asked++; asked < 100 {
			return 0, errors.New("no drive C: yet")
		}
		return 7, nil
	})
	if err != nil || serial != 7 || asked != 100 || waited != 99*startPause {
		t.Errorf("serial %d, asked %d times in %v: %v", serial, asked, waited, err)
	}
	asked, waited = 0, 0
	_, err = readAtStart(pause, func() (uint32, error) { asked++; return 0, errors.New("no drive") })
	if err == nil || err.Error() != "no drive" || asked != startTries || waited > 10*time.Second {
		t.Errorf("asked %d times in %v: %v", asked, waited, err)
	}
}

func TestFingerprintIsOfPhysicalCards(t *testing.T) {
	card := func(name string, last byte, flags net.Flags) net.Interface {
		return net.Interface{Name: name, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, last}, Flags: flags}
	}
	cards := []net.Interface{card("lo", 0, net.FlagLoopback), {Name: "tun"}, card("br", 1, 0), card("eth", 2, 0)}
	named := func(names ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	br, eth := hashText("02:00:00:00:00:01"), hashText("02:00:00:00:00:02")
	if got := cardsOf(cards, named("eth")); !slices.Equal(got, []string{eth}) {
		t.Errorf("beside a bridge: %q", got)
	}
	both := []string{br, eth}
	slices.Sort(both)
	if got := cardsOf(cards, named()); !slices.Equal(got, both) {
		t.Errorf("without a physical card: %q, want %q", got, both)
	}
}
