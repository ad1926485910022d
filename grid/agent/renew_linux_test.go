// SPDX-License-Identifier: MIT

// These tests have their own CA of a hub. They run on Linux only, because Wine 8 cannot remove
// the CA's read-only files when Go cleans up.

package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
)

// openAdmitted returns a node that joined a hub, and the hub's CA.
func openAdmitted(t *testing.T) (*ident.CA, *ident.Node) {
	t.Helper()
	ca, err := ident.OpenCA(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	node, err := ident.OpenNode(t.TempDir(), ident.Machine{Install: "here"})
	if err != nil {
		t.Fatal(err)
	}
	csr, err := node.CSR()
	if err != nil {
		t.Fatal(err)
	}
	first, err := ca.Sign(csr, node.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Admit(ident.Admission{Hub: "h", Certificate: first, CA: ca.DER(), UserJWT: "j"}); err != nil {
		t.Fatal(err)
	}
	return ca, node
}

// inAMonth is a time at which a new certificate has to be renewed.
func inAMonth() time.Time { return time.Now().Add((ident.RenewDays + 1) * 24 * time.Hour) }

// A machine that runs only for minutes a day must renew its certificate too.
func TestRenewsAtOnce(t *testing.T) {
	ca, node := openAdmitted(t)
	first := node.Admission().Certificate
	conf, err := node.TLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{client: newClient(startRenewer(t, ca), conf), node: node}
	defer l.http.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.keepRenewed(ctx, inAMonth, t.Logf) }()
	waitUntil(t, "another certificate", func() bool { return !bytes.Equal(node.Admission().Certificate, first) })
	if a := node.Admission(); a.UserJWT != "j" || a.Hub != "h" {
		t.Errorf("the renewal lost %+v", a)
	}
	cancel()
	<-ended
}

// A renewal that fails is logged, unless the connection has ended.
func TestRenewalThatFails(t *testing.T) {
	_, node := openAdmitted(t)
	conf, err := node.TLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	l := &link{client: newClient(nobody.Addr().String(), conf), node: node}
	defer l.http.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	logged := []string{}
	log := func(format string, args ...any) {
		logged = append(logged, fmt.Sprintf(format, args...))
		cancel()
	}
	defer time.AfterFunc(testTimeout, cancel).Stop()
	if l.keepRenewed(ctx, inAMonth, log); len(logged) != 1 || !strings.Contains(logged[0], "not renewed: ") {
		t.Errorf("without a hub: %q", logged)
	}
	logged = nil
	if l.keepRenewed(ctx, inAMonth, log); len(logged) > 0 {
		t.Errorf("after the end: %q", logged)
	}
}

// startRenewer starts a hub that only renews certificates.
func startRenewer(t *testing.T, ca *ident.CA) (address string) {
	conf, err := ca.HubTLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v proto.Renew
		id, _ := ident.PeerNode(*r.TLS)
		err := json.NewDecoder(r.Body).Decode(&v)
		cert, err2 := ca.Sign(v.CSR, id)
		if err != nil || err2 != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(proto.Joined{Certificate: cert, CA: ca.DER()})
	})}
	go s.Serve(tls.NewListener(l, conf))
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// A node that was removed while it was disconnected must learn the reason and end.
func TestRefusedSaysWhy(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		json.NewEncoder(w).Encode(proto.Problem{Code: proto.ProblemToken, Text: "removed"})
	}))
	defer s.Close()
	l := &link{client: newClient(s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})}
	defer l.http.CloseIdleConnections()
	if err := l.explainRefusal(t.Context(), io.EOF); err == nil || err.Error() != "removed" {
		t.Fatalf("got %v", err)
	}
	s.Close()
	if err := l.explainRefusal(t.Context(), io.EOF); err != io.EOF {
		t.Fatalf("without an answer: %v", err)
	}
}
