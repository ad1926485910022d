// SPDX-License-Identifier: MIT

package ident

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
)

// ErrNotAdmitted says that this node has yet to join.
var ErrNotAdmitted = errors.New("this machine has not joined a hub: run the line that `skep up` or `skep token` prints on the hub")

// ErrOtherHub: the hub's certificate is not from the CA that this node knows.
var ErrOtherHub = errors.New("another hub answers at this address, not the one that this machine joined: check the address, or join that hub with a token from `skep token` there")

// ErrCloned says that this machine runs from a copied disk, and has yet to join.
var ErrCloned = errors.New("this disk was copied from another node, so this machine got a new identity: join it with a token from `skep token` on the hub")

// An Admission is the hub's answer to a node that joined.
type Admission struct {
	Hub         string `json:"hub"`  // address that was dialled
	Name        string `json:"name"` // of the node
	Certificate []byte `json:"certificate"`
	CA          []byte `json:"ca"`
	UserJWT     string `json:"user_jwt"`
}

// A Node is the identity of one machine. Its keys never change after OpenNode;
// mu guards the admission, which a renewal replaces.
type Node struct {
	dir    string
	key    *ecdsa.PrivateKey
	seed   nkeys.KeyPair
	nkey   string
	cloned bool
	user   bool // it is a user's, not a node's

	mu    sync.Mutex
	admit Admission
	cert  *x509.Certificate
	ca    *x509.Certificate
	known known
}

// stored is the content of identity.json. It is one file, so that it is replaced atomically.
type stored struct {
	Key     []byte  `json:"key"` // PKCS 8
	Seed    string  `json:"seed"`
	Machine Machine `json:"machine"`
}

// ErrNoAccount says that no account of a hub is in a state directory.
var ErrNoAccount = errors.New("this state directory has no account of a hub: run the line that `skep user add` or `skep user token` prints on the hub")

// OpenUser reads the identity with which a user of this machine submits, or makes one. A home
// directory may be on many machines, so it does not belong to one of them.
func OpenUser(dir string) (*Node, error) {
	n, err := OpenNode(dir, Machine{})
	if err == nil {
		n.user = true
	}
	return n, err
}

// HasUser reports whether a user joined a hub with an identity in dir.
func HasUser(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "admission.json"))
	return err == nil
}

// OpenNode reads the identity in dir, or makes one at the first start. An
// identity that another machine made (a copied disk image) is put aside, with
// its admission, and a new one made: see Cloned.
func OpenNode(dir string, m Machine) (*Node, error) {
	if err := StateDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockFile(filepath.Join(dir, "identity.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	n := &Node{dir: dir}
	_, err = os.Stat(n.pathOf("cloned"))
	n.cloned = err == nil
	s, err := n.readIdentity()
	if err == nil && !s.Machine.IsSame(m) {
		err = n.putAside()
	}
	if errors.Is(err, fs.ErrNotExist) {
		s, err = n.makeIdentity(m)
	}
	if err == nil {
		err = n.setIdentity(s)
	}
	if err != nil {
		return nil, err
	}
	if err := n.readKnown(); err != nil {
		return nil, err
	}
	return n, n.readAdmission()
}

func (n *Node) pathOf(name string) string { return filepath.Join(n.dir, name) }

func (n *Node) damagedError(name string) error {
	return fmt.Errorf("%s is damaged: remove %s and join again with a new token", n.pathOf(name), n.dir)
}

func (n *Node) readIdentity() (s stored, err error) {
	b, err := os.ReadFile(n.pathOf("identity.json"))
	if err != nil {
		return s, err
	}
	if json.Unmarshal(b, &s) != nil {
		return s, n.damagedError("identity.json")
	}
	return s, nil
}

// putAside removes the identity of another machine. It returns ErrNotExist if a new one
// can be created. It writes the file "cloned" first and renames the identity last, so
// that after a crash in between it is repeated.
func (n *Node) putAside() error {
	if err := writeFile(n.pathOf("cloned"), nil); err != nil {
		return err
	}
	n.cloned = true
	if err := os.Remove(n.pathOf("admission.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(n.pathOf("identity.json"), n.pathOf("identity.other")); err != nil {
		return err
	}
	return fs.ErrNotExist
}

func (n *Node) makeIdentity(m Machine) (s stored, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return s, err
	}
	if s.Key, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return s, err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return s, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return s, err
	}
	s.Seed, s.Machine = string(seed), m
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return s, err
	}
	return s, writeFile(n.pathOf("identity.json"), b)
}

func (n *Node) setIdentity(s stored) error {
	key, err := x509.ParsePKCS8PrivateKey(s.Key)
	k, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return n.damagedError("identity.json")
	}
	n.key = k
	if n.seed, err = nkeys.FromSeed([]byte(s.Seed)); err != nil {
		return n.damagedError("identity.json")
	}
	if n.nkey, err = n.seed.PublicKey(); err != nil || !nkeys.IsValidPublicUserKey(n.nkey) {
		return n.damagedError("identity.json")
	}
	return nil
}

func (n *Node) readAdmission() error {
	b, err := os.ReadFile(n.pathOf("admission.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var a Admission
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err == nil {
		err = n.checkAdmission(a)
	}
	if err != nil {
		return n.damagedError("admission.json")
	}
	return nil
}

// NodeID returns the id of the node with this public nkey. Hub and node both compute
// it, so a node cannot choose it.
func NodeID(nkey string) string {
	sum := sha256.Sum256([]byte(nkey))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

func validID(id string) bool {
	return len(id) == 16 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// ID is the node's id.
func (n *Node) ID() string { return NodeID(n.nkey) }

// NKey is the node's public nkey.
func (n *Node) NKey() string { return n.nkey }

// Sign signs the engine's nonce.
func (n *Node) Sign(nonce []byte) ([]byte, error) { return n.seed.Sign(nonce) }

// Cloned reports whether this identity replaced that of a copied disk and has
// not joined since.
func (n *Node) Cloned() bool { return n.cloned }

// CSR returns a request for a certificate.
func (n *Node) CSR() ([]byte, error) {
	t := &x509.CertificateRequest{Subject: pkix.Name{CommonName: n.ID()}}
	return x509.CreateCertificateRequest(rand.Reader, t, n.key)
}

// Admit checks and stores the hub's answer to a join or a renewal.
func (n *Node) Admit(a Admission) error {
	if err := n.checkAdmission(a); err != nil {
		return err
	}
	b, err := json.MarshalIndent(a, "", "\t")
	if err == nil {
		err = writeFile(n.pathOf("admission.json"), b)
	}
	if err == nil {
		n.cloned = false
		err = os.Remove(n.pathOf("cloned"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// checkAdmission checks what does not change with time, and sets the admission. Whether the
// certificate has expired is checked when it is used.
func (n *Node) checkAdmission(a Admission) error {
	cert, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return fmt.Errorf("the hub's certificate for this node cannot be read: %w", err)
	}
	ca, err := x509.ParseCertificate(a.CA)
	if err != nil {
		return fmt.Errorf("the hub's CA cannot be read: %w", err)
	}
	if !n.key.PublicKey.Equal(cert.PublicKey) || cert.Subject.CommonName != n.ID() || cert.CheckSignatureFrom(ca) != nil {
		return errors.New("the hub's certificate is not for this node: join again with a new token")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ca != nil && !bytes.Equal(n.ca.Raw, a.CA) && a.Hub == n.admit.Hub {
		return ErrWrongHub
	}
	n.admit, n.cert, n.ca = a, cert, ca
	return nil
}

// Admitted reports whether the node has joined; Why says what to do if not.
func (n *Node) Admitted() bool { return n.Why() == nil }

// JoinedHubOf reports whether the node has joined the hub that made this token.
func (n *Node) JoinedHubOf(t Token) bool {
	return n.Admitted() && sha256.Sum256(n.Admission().CA) == t.CA
}

// Why returns ErrNotAdmitted, ErrCloned, or an error if the certificate has expired, else nil.
func (n *Node) Why() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.cert == nil && n.user:
		return ErrNoAccount
	case n.cert != nil && time.Now().Before(n.cert.NotBefore):
		return fmt.Errorf("%w: this machine's certificate is valid from %s, and here it is %s: set this machine's clock", ErrClock, date(n.cert.NotBefore), date(time.Now()))
	case n.user && time.Now().After(n.cert.NotAfter):
		return fmt.Errorf("the certificate of this account expired on %s, and here it is %s: set this machine's clock if that is wrong, else ask for a line of `skep user token %s` on the hub, and run it here",
			n.cert.NotAfter.Format(time.DateOnly), date(time.Now()), n.admit.Name)
	case n.cert == nil && n.cloned:
		return ErrCloned
	case n.cert == nil:
		return ErrNotAdmitted
	case time.Now().After(n.cert.NotAfter):
		return fmt.Errorf("this node's certificate expired on %s, and here it is %s: set this machine's clock if that is wrong, else join again with a token from `skep token` on the hub",
			n.cert.NotAfter.Format(time.DateOnly), date(time.Now()))
	}
	return nil
}

// Admission returns the hub's answer, as stored.
func (n *Node) Admission() Admission {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.admit
}

// Expires returns when the certificate expires, or the zero time without one.
func (n *Node) Expires() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cert == nil {
		return time.Time{}
	}
	return n.cert.NotAfter
}

// RenewDue reports whether the certificate is old enough to be renewed.
func (n *Node) RenewDue(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cert != nil && now.After(n.cert.NotAfter.Add(-(NodeDays-RenewDays)*day))
}

// TLS returns the configuration of the node's side of every connection after joining.
// The certificate is looked up at each handshake, so it stays valid after a renewal.
func (n *Node) TLS(protos ...string) (*tls.Config, error) {
	if err := n.Why(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	pool := x509.NewCertPool()
	pool.AddCert(n.ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protos, RootCAs: pool, ServerName: ServerName,
		VerifyConnection: n.checkHub,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{n.Admission().Certificate}, PrivateKey: n.key}, nil
		},
	}, nil
}

// JoinTLS returns a configuration that trusts only the hub that made the token.
func JoinTLS(t Token, protos ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protos, ServerName: ServerName,
		InsecureSkipVerify: true, // verifyPinned replaces the check against the system's roots
		VerifyConnection:   func(s tls.ConnectionState) error { return verifyPinned(s, t.CA) },
	}
}

func verifyPinned(state tls.ConnectionState, digest [32]byte) error {
	pool, found := x509.NewCertPool(), false
	for _, c := range state.PeerCertificates {
		if sha256.Sum256(c.Raw) == digest {
			pool.AddCert(c)
			found = true
		}
	}
	if !found {
		return ErrWrongHub
	}
	if RankOf(state.PeerCertificates[0]).Standby {
		return ErrStandby
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: ServerName, Roots: pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return fmt.Errorf("the hub's certificate is not good: %w", err)
	}
	return nil
}
