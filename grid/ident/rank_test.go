// SPDX-License-Identifier: MIT

package ident

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func rankTLS(t *testing.T, ca *CA, r Rank) *tls.Config {
	t.Helper()
	c, err := ca.RankTLS(r, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A node works for the hub with the greatest epoch that it has seen, also after a restart, and for no
// standby. Another CA begins anew.
func TestHubsOfOneCA(t *testing.T) {
	ca, dir := openCA(t, t.TempDir()), t.TempDir()
	n := openNode(t, dir, here)
	admitNode(t, ca, n)
	meet := func(ca *CA, r Rank) error {
		t.Helper()
		c, err := n.TLS("http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = handshake(t, rankTLS(t, ca, r), c)
		return err
	}
	for _, step := range []struct {
		rank Rank
		want error
	}{{Rank{}, nil}, {Rank{Standby: true}, ErrStandby}, {Rank{Epoch: 2, Standby: true}, ErrStandby}, {Rank{}, nil},
		{Rank{Epoch: 2}, nil}, {Rank{Epoch: 1}, ErrFormerHub}, {Rank{}, ErrFormerHub}, {Rank{Epoch: 2}, nil}} {
		if err := meet(ca, step.rank); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v", step.rank, err)
		}
		n = openNode(t, dir, here)
	}
	epoch, proof := n.Epoch()
	if got, err := ca.CheckProof(proof); err != nil || epoch != 2 || got != 2 {
		t.Errorf("epoch %d, proof of %d, %v", epoch, got, err)
	}
	if _, err := openCA(t, t.TempDir()).CheckProof(proof); err == nil {
		t.Error("another CA takes the proof")
	}
	if _, _, err := handshake(t, rankTLS(t, ca, Rank{Standby: true}), JoinTLS(Token{CA: ca.Digest()}, "http/1.1")); !errors.Is(err, ErrStandby) {
		t.Errorf("a join at a standby: %v", err)
	}
	other := openCA(t, t.TempDir())
	csr, err := n.CSR()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := other.Sign(csr, n.ID())
	if err == nil {
		err = n.Admit(Admission{Hub: "b:1", Name: "n", Certificate: cert, CA: other.DER()})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := meet(other, Rank{}); err != nil {
		t.Errorf("the hub of another CA: %v", err)
	}
}

// Addresses that the hub named are stored, the one that answered last in front, and few of them.
func TestAddressesOfHubs(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, dir, here)
	admitNode(t, openCA(t, t.TempDir()), n)
	first := n.Admission().Hub
	for range 2 {
		if err := n.AddHub("second:1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.AddHub("nonsense"); err == nil {
		t.Error("an address without a port is stored")
	}
	if list := n.Hubs(); !slices.Equal(list, []string{first, "second:1"}) {
		t.Errorf("%q", list)
	}
	if err := n.UseHub("second:1"); err != nil {
		t.Fatal(err)
	}
	if list := openNode(t, dir, here).Hubs(); !slices.Equal(list, []string{"second:1", first}) {
		t.Errorf("%q", list)
	}
	for _, name := range []string{"c:1", "d:1", "e:1", "f:1"} {
		if err := n.AddHub(name); err != nil {
			t.Fatal(err)
		}
	}
	if list := n.Hubs(); len(list) > knownMost+1 || !slices.Contains(list, first) {
		t.Errorf("%q", list)
	}
}

type testConn struct{ io.Closer }

// The first address that answers is used, also if the one before it hangs; if none does, the error is
// that of the first.
func TestFirstHubThatAnswers(t *testing.T) {
	var failed []string
	dial := func(ctx context.Context, address string) (testConn, error) {
		switch {
		case strings.HasPrefix(address, "hangs"):
			<-ctx.Done()
			return testConn{}, ctx.Err()
		case strings.HasPrefix(address, "no"):
			return testConn{}, errors.New(address)
		}
		return testConn{io.NopCloser(nil)}, nil
	}
	note := func(address string, _ error) { failed = append(failed, address) }
	for want, list := range map[string][]string{"a": {"a", "b"}, "c": {"no", "no2", "c"}, "d": {"hangs", "d"}} {
		if _, got, err := DialAny(t.Context(), list, dial, note); err != nil || got != want {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
	if !slices.Contains(failed, "no2") {
		t.Errorf("told of %q", failed)
	}
	if _, _, err := DialAny(t.Context(), []string{"no", "no2"}, dial, nil); err == nil || err.Error() != "no" {
		t.Error(err)
	}
}
