// SPDX-License-Identifier: MIT

// Package ident manages identities: the hub's certificate authority, the tokens
// that let a machine join, and a node's identity. Its files are in state
// directories of mode 0700; keys and tokens have mode 0600. What a network peer
// presents is checked here before anything else sees it.
package ident

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ServerName is the name in the hub's certificate. Nodes check it whatever address
// they dial; the CA identifies the hub.
const ServerName = "skep-hub"

// Lifetimes.
const (
	caYears    = 20
	NodeDays   = 90 // of a node's certificate
	userDays   = 365
	RenewDays  = 30 // a node renews when its certificate is this old
	serverDays = 365
	day        = 24 * time.Hour
	clockSlack = time.Hour // clocks of machines differ
)

// A CA signs the certificates of one hub and its nodes. It does not change
// after OpenCA and may be used by many goroutines.
type CA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// OpenCA reads the CA in dir, or makes one at the first start.
func OpenCA(dir string) (*CA, error) {
	if err := StateDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockFile(filepath.Join(dir, "ca.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	keyFile, certFile := filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca.crt")
	_, keyErr := os.Stat(keyFile)
	_, certErr := os.Stat(certFile)
	if errors.Is(certErr, fs.ErrNotExist) {
		// The certificate is written last: a key alone is a first start cut short.
		if err := makeCA(keyFile, certFile); err != nil {
			return nil, err
		}
	} else if errors.Is(keyErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing but %s exists: restore the key from a backup, or remove the directory and let every node join again", keyFile, certFile)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	der, err := readPEM(certFile, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s does not belong to %s: restore both from one backup", certFile, keyFile)
	}
	return &CA{key, cert}, nil
}

func makeCA(keyFile, certFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: "skep CA"},
		NotBefore: now.Add(-clockSlack), NotAfter: now.AddDate(caYears, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if err := writeKey(keyFile, key); err != nil {
		return err
	}
	return writePEM(certFile, "CERTIFICATE", der)
}

// DER returns the CA's certificate.
func (ca *CA) DER() []byte { return ca.cert.Raw }

// Digest is what tokens pin: SHA-256 of the CA's certificate.
func (ca *CA) Digest() [32]byte { return sha256.Sum256(ca.cert.Raw) }

// Sign makes a node's certificate. The request proves that its sender has the
// key. Names in the request are ignored: the certificate names id.
func (ca *CA) Sign(csr []byte, id string) ([]byte, error) {
	return ca.sign(csr, id, unitNode, NodeDays*day)
}

// SignUser makes the certificate of one machine of a user who submits runs.
func (ca *CA) SignUser(csr []byte, id string) ([]byte, error) {
	return ca.sign(csr, id, unitUser, userDays*day)
}

// SignStandby makes the certificate of a hub that follows this one.
func (ca *CA) SignStandby(csr []byte, id string) ([]byte, error) {
	return ca.sign(csr, id, unitStandby, userDays*day)
}

// Organizational units in certificates. They keep what nodes may do from users, and the
// other way round.
const (
	unitNode    = "node"
	unitUser    = "user"
	unitStandby = "standby"
)

func (ca *CA) sign(csr []byte, id, unit string, life time.Duration) ([]byte, error) {
	req, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("the certificate request cannot be read: %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request is not signed by its key: %w", err)
	}
	key, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the certificate request has a key other than P-256: update the node's skep")
	}
	if !validID(id) {
		return nil, fmt.Errorf("%q is not a node id", id)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: id, OrganizationalUnit: []string{unit}},
		NotBefore:    now.Add(-clockSlack), NotAfter: now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return x509.CreateCertificate(rand.Reader, t, ca.cert, key, ca.key)
}

// HubTLS returns the configuration of the hub's side of every connection. A client
// certificate is verified if there is one; a machine that joins has none. Handlers
// call PeerNode. The server's key and certificate are generated at each start, and
// again when the certificate is old, so they are never on the disk.
func (ca *CA) HubTLS(protos ...string) (*tls.Config, error) { return ca.RankTLS(Rank{}, protos...) }

// RankTLS is HubTLS for a hub of this rank.
func (ca *CA) RankTLS(rank Rank, protos ...string) (*tls.Config, error) {
	s := &server{ca: ca, rank: rank, now: time.Now}
	if _, err := s.certificate(nil); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protos, ClientCAs: pool,
		ClientAuth: tls.VerifyClientCertIfGiven, GetCertificate: s.certificate,
	}, nil
}

// PeerNode returns the node's id of a verified client certificate.
func PeerNode(state tls.ConnectionState) (id string, ok bool) { return peerOf(state, unitNode) }

// PeerUser returns the id in a verified client certificate of SignUser.
func PeerUser(state tls.ConnectionState) (id string, ok bool) { return peerOf(state, unitUser) }

// PeerStandby returns the id in a verified client certificate of SignStandby.
func PeerStandby(state tls.ConnectionState) (id string, ok bool) { return peerOf(state, unitStandby) }

func peerOf(state tls.ConnectionState, unit string) (id string, ok bool) {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return "", false
	}
	name := state.PeerCertificates[0].Subject
	if len(name.OrganizationalUnit) != 1 || name.OrganizationalUnit[0] != unit || !validID(name.CommonName) {
		return "", false
	}
	return name.CommonName, true
}

func (ca *CA) serverCertificate(now time.Time, rank Rank) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: ServerName},
		NotBefore: now.Add(-clockSlack), NotAfter: now.Add(serverDays * day),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{ServerName, "localhost"},
	}
	rank.mark(t)
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		t.DNSNames = append(t.DNSNames, host)
	}
	addresses, _ := net.InterfaceAddrs() // nodes do not need them, but other TLS clients do
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			t.IPAddresses = append(t.IPAddresses, n.IP)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	// The CA's certificate is sent too, because a joining node only knows its digest.
	return &tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key}, nil
}

func newSerial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail on the systems skep runs on
	}
	return n
}
