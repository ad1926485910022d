// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
)

// How long a worker is silent is counted from the start of the program: a step of the machine's
// clock, which counts from 1970, would otherwise end every worker at once.
func TestSilenceDoesNotFollowTheClock(t *testing.T) {
	w := newWire(&stream{Reader: strings.NewReader("")})
	w.stuck.Store(1)
	w.restartSilence()
	for what, at := range map[string]int64{"bytes were transferred": w.heard.Load(), "it reads nothing": w.stuck.Load()} {
		if since := time.Since(programBegan); at <= 0 || time.Duration(at) > since+time.Second {
			t.Errorf("%s since %v, and the program runs for %v", what, time.Duration(at), since)
		}
	}
}

// A node whose clock, or whose hub's clock, is wrong at its start says so and tries again: it did
// not meet another hub.
func TestNodeWaitsForTheClock(t *testing.T) {
	t.Parallel()
	ca, address := hubOfAnotherTime(t)
	lines := make(chan string, 100)
	c := Config{State: t.TempDir(), Slots: 1, Status: func(text string) { lines <- text }}
	node, err := openNode(c.State)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := node.CSR()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Sign(csr, node.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Admit(ident.Admission{Hub: address, Name: "pc", Certificate: cert, CA: ca.DER()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	for range 2 {
		if text := awaitLine(t, lines, "no connection to the hub ("); !strings.Contains(text, "the clock of the hub's machine or of this one is wrong: the hub's certificate is valid from ") || !strings.Contains(text, "; next try in ") {
			t.Error(text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// hubOfAnotherTime answers with a certificate of two years from now, as a hub with such a clock.
func hubOfAnotherTime(t *testing.T) (*ident.CA, string) {
	t.Helper()
	dir := t.TempDir()
	ca, err := ident.OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	signer, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	parent, err := x509.ParseCertificate(ca.DER())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().AddDate(2, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(1, 0, 0),
		DNSNames: []string{ident.ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{NextProtos: []string{proto.ALPNHTTP},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der, ca.DER()}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { c.(*tls.Conn).Handshake(); c.Close() }()
		}
	}()
	return ca, l.Addr().String()
}
