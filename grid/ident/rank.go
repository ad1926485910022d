// SPDX-License-Identifier: MIT

package ident

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Several hubs may have one CA: a hub, its standby, and hubs from which a standby took over. Each
// says in its own certificate which one it is, so each handshake with a node or a user checks it.

// A Rank is what the certificate of a hub says. A hub that takes over has a greater epoch than
// the one before; the first one has 0.
type Rank struct {
	Epoch   uint64
	Standby bool // it follows a hub, and serves nobody
}

const (
	unitFollower = "standby" // organizational unit in a server's certificate
	epochPrefix  = "epoch-"  // of the serial number in its subject
)

// Errors of a handshake with a hub that is not the one to work for.
var (
	ErrStandby   = errors.New("a standby answers at this address: it serves nobody until `skep standby promote` makes it the hub")
	ErrFormerHub = errors.New("the hub at this address is not in charge any more: its standby took over")
)

// RankOf reads the rank in a hub's certificate.
func RankOf(c *x509.Certificate) Rank {
	r := Rank{Standby: slices.Contains(c.Subject.OrganizationalUnit, unitFollower)}
	if text, ok := strings.CutPrefix(c.Subject.SerialNumber, epochPrefix); ok {
		r.Epoch, _ = strconv.ParseUint(text, 10, 63)
	}
	return r
}

// mark writes the rank into the template of a certificate.
func (r Rank) mark(t *x509.Certificate) {
	if r.Epoch > 0 {
		t.Subject.SerialNumber = epochPrefix + strconv.FormatUint(r.Epoch, 10)
	}
	if r.Standby {
		t.Subject.OrganizationalUnit = []string{unitFollower}
	}
}

// CheckProof returns the epoch in the certificate of a hub, if this CA signed it. Nobody but a hub
// has one, so it proves that a hub of this epoch exists. It does not expire.
func (ca *CA) CheckProof(der []byte) (uint64, error) {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return 0, fmt.Errorf("the certificate of the other hub cannot be read: %w", err)
	}
	if c.CheckSignatureFrom(ca.cert) != nil || c.Subject.CommonName != ServerName ||
		!slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || RankOf(c).Standby {
		return 0, errors.New("this is not the certificate of a hub with the same CA")
	}
	return RankOf(c).Epoch, nil
}

// PeerRank asks the hub at an address for its rank. It must have a certificate of this CA.
func (ca *CA) PeerRank(ctx context.Context, address string) (Rank, error) {
	d := &tls.Dialer{Config: ca.ClientTLS()}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return Rank{}, err
	}
	defer c.Close()
	return RankOf(c.(*tls.Conn).ConnectionState().PeerCertificates[0]), nil
}

// ClientTLS is the configuration of a hub that connects to another one with this CA.
func (ca *CA) ClientTLS(protos ...string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protos, RootCAs: pool, ServerName: ServerName}
}

// known is what a node or a user has stored of its hubs. It is void for another CA.
type known struct {
	CA        string   `json:"ca"`        // SHA-256, hex
	Epoch     uint64   `json:"epoch"`     // the greatest that a hub had
	Proof     []byte   `json:"proof"`     // the certificate of that hub
	Addresses []string `json:"addresses"` // the one that answered last in front
}

const (
	knownFile = "hubs.json"
	knownMost = 4 // addresses
)

// readKnown reads what is stored. Without it a node knows the address that it joined at.
func (n *Node) readKnown() error {
	b, err := os.ReadFile(n.pathOf(knownFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var k known
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil {
		return n.damagedError(knownFile)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = k
	return nil
}

// hubs returns what is known of the hubs with the CA that the node has now. The lock is held.
func (n *Node) hubs() known {
	if n.ca == nil {
		return known{}
	}
	sum := sha256.Sum256(n.ca.Raw)
	if ca := hex.EncodeToString(sum[:]); n.known.CA != ca {
		return known{CA: ca}
	}
	return n.known
}

// changeKnown stores a change of what is known, if it is one.
func (n *Node) changeKnown(f func(*known)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.hubs()
	next := old
	next.Addresses = slices.Clone(old.Addresses)
	f(&next)
	if next.Epoch == old.Epoch && slices.Equal(next.Addresses, old.Addresses) {
		return nil
	}
	b, err := json.MarshalIndent(next, "", "\t")
	if err == nil {
		err = writeFile(n.pathOf(knownFile), append(b, '\n'))
	}
	if err == nil {
		n.known = next
	}
	return err
}

// checkHub refuses a standby, and a hub that another one took over from, as far as this node has
// heard of it. It remembers the greatest epoch before it lets the connection be used.
func (n *Node) checkHub(s tls.ConnectionState) error {
	c := s.PeerCertificates[0]
	rank := RankOf(c)
	if rank.Standby {
		return ErrStandby
	}
	n.mu.Lock()
	seen := n.hubs().Epoch
	n.mu.Unlock()
	if rank.Epoch < seen {
		return ErrFormerHub
	}
	return n.changeKnown(func(k *known) {
		if rank.Epoch > k.Epoch {
			k.Epoch, k.Proof = rank.Epoch, bytes.Clone(c.Raw)
		}
	})
}

// FormerTLS is TLS for a hub that is not in charge any more, and is to hear it. The node does not
// say who it is.
func (n *Node) FormerTLS(protos ...string) (*tls.Config, error) {
	conf, err := n.TLS(protos...)
	if err == nil {
		conf.VerifyConnection, conf.GetClientCertificate = nil, nil
	}
	return conf, err
}

// Epoch is the greatest epoch of a hub that this node has seen, and proof that hub's certificate.
func (n *Node) Epoch() (epoch uint64, proof []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.hubs()
	return k.Epoch, k.Proof
}

// Hubs returns the addresses at which the hub or its standby may be, the best one first.
func (n *Node) Hubs() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.Clone(n.hubs().Addresses)
	if !slices.Contains(list, n.admit.Hub) {
		list = append(list, n.admit.Hub)
	}
	return list
}

// AddHub stores an address that a hub named: that of its standby.
func (n *Node) AddHub(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("the hub named the address %.80q, which is none: %w", address, err)
	}
	return n.changeKnown(func(k *known) {
		if address != n.admit.Hub && !slices.Contains(k.Addresses, address) {
			if len(k.Addresses) == 0 {
				k.Addresses = []string{n.admit.Hub} // it answers now
			}
			k.Addresses = append(k.Addresses, address)
			k.Addresses = k.Addresses[max(0, len(k.Addresses)-knownMost):]
		}
	})
}

// UseHub stores that the hub at an address answered.
func (n *Node) UseHub(address string) error {
	return n.changeKnown(func(k *known) {
		if at := slices.Index(k.Addresses, address); at > 0 {
			k.Addresses = slices.Insert(slices.Delete(k.Addresses, at, at+1), 0, address)
		}
	})
}

// hubHead is how long the hub at one address may take until the next one is tried too.
const hubHead = 2 * time.Second

// DialAny connects to the first of these addresses at which f succeeds. failed is told of each one
// that did not before that. The error is that of the first address.
func DialAny[C interface{ Close() error }](ctx context.Context, addresses []string, f func(context.Context, string) (C, error), failed func(string, error)) (conn C, address string, err error) {
	type result struct {
		at   int
		conn C
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(addresses))
	begun, ended := 0, 0
	errs := make([]error, len(addresses))
	begin := func() {
		if at := begun; at < len(addresses) {
			begun++
			go func() {
				c, err := f(ctx, addresses[at])
				results <- result{at, c, err}
			}()
		}
	}
	head := time.NewTicker(hubHead)
	defer head.Stop()
	for begin(); ended < len(addresses); {
		select {
		case <-head.C:
			begin()
		case r := <-results:
			ended++
			if r.err == nil {
				go func() { // those that come too late
					for range begun - ended {
						if r := <-results; r.err == nil {
							r.conn.Close()
						}
					}
				}()
				return r.conn, addresses[r.at], nil
			}
			errs[r.at] = r.err
			if failed != nil {
				failed(addresses[r.at], r.err)
			}
			begin()
		}
	}
	return conn, "", errs[0]
}
