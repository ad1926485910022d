// SPDX-License-Identifier: MIT

package agent

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"skep/grid/ident"
	"skep/grid/proto"
)

// A rankedHub shows a certificate, and takes proofs of another hub.
type rankedHub struct {
	address string
	conf    atomic.Pointer[tls.Config]
	epochs  chan uint64 // that were proved to it
}

func startRanked(t *testing.T, ca *ident.CA, rank ident.Rank) *rankedHub {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &rankedHub{address: l.Addr().String(), epochs: make(chan uint64, 10)}
	h.setRank(t, ca, rank)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v proto.Epoch
		if json.NewDecoder(r.Body).Decode(&v) == nil && r.URL.Path == proto.PathEpoch {
			epoch, _ := ca.CheckProof(v.Proof)
			h.epochs <- epoch
		}
		w.Write([]byte("{}"))
	})}
	conf := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.conf.Load(), nil }}
	go s.Serve(tls.NewListener(l, conf))
	t.Cleanup(func() { s.Close() })
	return h
}

func (h *rankedHub) setRank(t *testing.T, ca *ident.CA, rank ident.Rank) {
	t.Helper()
	conf, err := ca.RankTLS(rank, proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	h.conf.Store(conf)
}

// A node that still reaches its hub finds out that the standby took over, goes there, and proves to
// the old hub that it is over.
func TestNodeFindsTheNewHub(t *testing.T) {
	ca, node := openAdmitted(t)
	first, second := startRanked(t, ca, ident.Rank{}), startRanked(t, ca, ident.Rank{Standby: true})
	admission := node.Admission()
	admission.Hub = first.address
	if err := node.Admit(admission); err != nil {
		t.Fatal(err)
	}
	a := &Agent{config: Config{Log: t.Logf}}
	a.noteHubs(node, []string{second.address, "nonsense"})
	conf, err := node.TLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	choose := func(want *rankedHub) {
		t.Helper()
		if got, err := a.chooseHub(t.Context(), node, conf); err != nil || got != want.address {
			t.Errorf("%q, %v, not %q", got, err, want.address)
		}
	}
	choose(first)
	l := &link{client: newClient(first.address, conf), node: node}
	if err := l.lookAround(t.Context()); err != nil {
		t.Errorf("while the standby stands by: %v", err)
	}
	second.setRank(t, ca, ident.Rank{Epoch: 1})
	if err := l.lookAround(t.Context()); !errors.Is(err, ident.ErrFormerHub) {
		t.Errorf("after it took over: %v", err)
	}
	choose(second)
	if epoch := <-first.epochs; epoch != 1 {
		t.Errorf("the old hub got a proof of epoch %d", epoch)
	}
	a.config.Hub = first.address // as 'skep join HOST' gives it
	choose(second)
}
