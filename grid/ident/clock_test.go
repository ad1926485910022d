// SPDX-License-Identifier: MIT

package ident

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A certificate that is refused by its date is explained by the clocks, on both sides; another
// error stays what it is.
func TestWrongClocks(t *testing.T) {
	ca, n := openCA(t, t.TempDir()), openNode(t, t.TempDir(), here)
	admitNode(t, ca, n)
	for _, c := range []struct {
		what      string
		hub, node time.Duration // how wrong the clocks are
		want      string        // at the node
	}{
		{"both are right", 0, 0, ""},
		{"they differ a little", -50 * time.Minute, 0, ""},
		{"the hub's is ahead", 2 * 365 * day, 0, "the hub's certificate is valid from "},
		{"the hub's is behind", -2 * 365 * day, 0, "the hub's certificate is valid from "},
		{"the node's is behind", 0, -2 * 365 * day, "the hub's certificate is valid from "},
		{"the node's is ahead", 0, 2 * 365 * day, "the hub's certificate is valid from "},
	} {
		hub, own := hubTLS(t, ca), tlsOf(t, n)
		s := &server{ca: ca, now: func() time.Time { return time.Now().Add(c.hub) }}
		hub.GetCertificate = s.certificate
		hub.Time, own.Time = s.now, func() time.Time { return time.Now().Add(c.node) }
		_, _, err := handshake(t, hub, own)
		checkClock(t, c.what, err, c.want)
	}
	hub, own := hubTLS(t, ca), tlsOf(t, n)
	hub.Time = func() time.Time { return time.Now().AddDate(1, 0, 0) } // its certificate is still good
	_, _, err := handshake(t, hub, own)
	checkClock(t, "the hub alone refuses", err, "the hub refuses this machine's certificate by its date")
	for _, other := range []error{nil, errors.New("x"), &net.OpError{Op: "remote error", Err: tls.AlertError(42)}, x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}} {
		if err := ExplainClock(other); err != other {
			t.Errorf("%v became %v", other, err)
		}
	}
	// What the node knows itself.
	for _, c := range []struct {
		from, to time.Duration
		want     string
	}{{time.Hour, 2 * time.Hour, "this machine's certificate is valid from "}, {-2 * time.Hour, -time.Hour, "set this machine's clock if that is wrong"}} {
		cert := *n.cert
		cert.NotBefore, cert.NotAfter = time.Now().Add(c.from), time.Now().Add(c.to)
		n.cert = &cert
		if err := n.Why(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func tlsOf(t *testing.T, n *Node) *tls.Config {
	t.Helper()
	c, err := n.TLS("http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func checkClock(t *testing.T, what string, err error, want string) {
	t.Helper()
	err = ExplainClock(err)
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if !errors.Is(err, ErrClock) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set the clock that is wrong") {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// A hub whose clock is set makes a certificate for the new time at once, and not after half a year.
func TestHubClockIsSet(t *testing.T) {
	at := time.Now()
	s := &server{ca: openCA(t, t.TempDir()), now: func() time.Time { return at }}
	first, err := s.certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.made.String(), " m=") {
		t.Error("it counts by the monotonic clock, which no step moves")
	}
	for _, c := range []struct {
		step time.Duration
		same bool
	}{{time.Hour, true}, {-time.Hour - 10*time.Minute, true}, {-365 * day, false}, {2 * 365 * day, false}} {
		at = at.Add(c.step)
		next, err := s.certificate(nil)
		if err != nil || (next == first) != c.same {
			t.Errorf("after a step of %v it is the same: %v, %v", c.step, next == first, err)
		}
		if leaf, err := x509.ParseCertificate(next.Certificate[0]); err != nil || at.Before(leaf.NotBefore) || at.After(leaf.NotAfter) {
			t.Errorf("after a step of %v its certificate is not good: %v", c.step, err)
		}
		first = next
	}
}
