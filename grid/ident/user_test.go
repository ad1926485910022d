// SPDX-License-Identifier: MIT

package ident

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A user's certificate makes nobody a node, and a node's nobody a user.
func TestUserCertificates(t *testing.T) {
	ca, err := OpenCA(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conf, err := ca.HubTLS("http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n, err := OpenUser(dir)
	if err != nil {
		t.Fatal(err)
	}
	if HasUser(dir) || !errors.Is(n.Why(), ErrNoAccount) {
		t.Errorf("an account without an admission: %v", n.Why())
	}
	csr, err := n.CSR()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sign       func([]byte, string) ([]byte, error)
		user, node bool
		days       int
	}{{ca.SignUser, true, false, userDays}, {ca.Sign, false, true, NodeDays}} {
		cert, err := c.sign(csr, n.ID())
		if err == nil {
			err = n.Admit(Admission{Hub: "h:1", Name: "ada", Certificate: cert, CA: ca.DER()})
		}
		if err != nil {
			t.Fatal(err)
		}
		own, err := n.TLS("http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		state, hubErr, userErr := handshake(t, conf, own)
		user, isUser := PeerUser(state)
		node, isNode := PeerNode(state)
		if hubErr != nil || userErr != nil || isUser != c.user || isNode != c.node || user+node != n.ID() {
			t.Errorf("%v %v: user %q %v, node %q %v", hubErr, userErr, user, isUser, node, isNode)
		}
		if left := time.Until(n.Expires()); left < time.Duration(c.days-1)*day || left > time.Duration(c.days+1)*day {
			t.Errorf("it is valid for %v", left)
		}
	}
	for _, name := range []string{"identity.json", "admission.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if again, err := OpenUser(dir); err != nil || !HasUser(dir) || again.ID() != n.ID() || again.Why() != nil {
		t.Errorf("the next command has another account: %v", err)
	}
	n.cert.NotAfter = time.Now().Add(-time.Minute)
	if err := n.Why(); err == nil || !strings.Contains(err.Error(), "`skep user token ada`") {
		t.Errorf("an expired certificate: %v", err)
	}
}

// A user's tokens are its own, and gone with the account; a check that fails takes no use.
func TestUserTokensAreOfOneUser(t *testing.T) {
	dir := t.TempDir()
	users, err := OpenUserTokens(dir, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := OpenTokens(dir, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	accept := func(string) error { return nil }
	a, _ := users.NewFor("a", 1, time.Hour)
	b, _ := users.NewFor("b", 1, time.Hour)
	if err := nodes.Redeem(a.String()); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("it admits a node: %v", err)
	}
	refused := errors.New("no")
	if _, err := users.RedeemFor(a.String(), func(user string) error {
		if user != "a" {
			t.Errorf("it is of %q", user)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if user, err := users.RedeemFor(a.String(), accept); err != nil || user != "a" {
		t.Errorf("%q, %v", user, err)
	}
	if user, err := users.RedeemFor(a.String(), accept); !errors.Is(err, ErrTokenUsedUp) || user != "" {
		t.Errorf("%q, %v", user, err)
	}
	if err := users.RemoveUser("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := users.RedeemFor(b.String(), accept); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("a token of an account that is gone: %v", err)
	}
}
