// SPDX-License-Identifier: MIT

// Package rolls carries kernel updates from a hub to its nodes, in waves. The decisions are
// those of dynamos/update/roll. Hub stores the rolls of a hub; Node carries out those of
// its hub, and remembers over restarts and boots what it did.
//
// They exchange a Report and an Order per roll and node, which may be lost. Neither trusts
// the other: the hub bounds what a node says, and a node takes only what its operators signed.
package rolls

import (
	"fmt"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// A Spec says what a roll brings to a node. It stays the same for the life of the roll.
type Spec struct {
	ID      string        `json:"id"`      // random
	Name    string        `json:"name"`    // of the update
	Package string        `json:"package"` // SHA-256 of its file, in hex
	Canary  string        `json:"canary"`  // the first policy, as trust.ParsePolicy reads it
	Policy  string        `json:"policy"`  // the whole policy
	Trial   time.Duration `json:"trial"`   // the kernel reverts the update this long after it was loaded, unless committed
	Lease   time.Duration `json:"lease"`
	Health  Health        `json:"health"`
	// Supersede: older updates of the same functions stay in force below this one, and leave
	// when it is committed.
	Supersede bool `json:"supersede,omitempty"`
}

// Health has the limits beyond which a node's kernel reverts the update; 0: no limit.
type Health struct {
	Least   uint32        `json:"least_calls"`
	Errors  uint32        `json:"errors_per_1000"`
	Latency uint32        `json:"latency_percent"`
	Stuck   time.Duration `json:"stuck"`
}

// Limits of what comes over the network.
const (
	idMax     = 64
	digestHex = 64
	policyMax = 16 << 10
	textMax   = 512 // of a sentence of a node
	insideMax = 16  // tasks that a report names
	nodesMax  = 10000
	rollsMax  = 64 // of a hub, and of a node
)

// trialMax is the longest trial of the kernel: it counts milliseconds in 32 bits.
const trialMax = 49 * 24 * time.Hour

// Check returns what is wrong with a specification.
func (s *Spec) Check() error {
	switch {
	case s.ID == "" || len(s.ID) > idMax:
		return fmt.Errorf("the roll has no valid id")
	case !pack.ValidName(s.Name):
		return fmt.Errorf("%.80q is not the name of an update", s.Name)
	case !isDigest(s.Package):
		return fmt.Errorf("the package is not named by its digest")
	case s.Trial < time.Second || s.Trial > trialMax:
		return fmt.Errorf("a trial of %v is not possible: it takes 1s to %v", s.Trial, trialMax)
	case s.Lease <= 0 || s.Lease > time.Minute:
		return fmt.Errorf("a lease of %v is not possible", s.Lease)
	case s.Health.Stuck < 0 || s.Health.Errors > 1000:
		return fmt.Errorf("a health limit is out of range")
	}
	for _, text := range []string{s.Canary, s.Policy} {
		if len(text) > policyMax {
			return fmt.Errorf("a policy of %d bytes, at most %d are possible", len(text), policyMax)
		}
		if _, err := trust.ParsePolicy(text); err != nil {
			return err
		}
	}
	return nil
}

func isDigest(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == digestHex
}

// A Report is what a node says about one roll.
type Report struct {
	ID     string      `json:"id"`
	Report roll.Report `json:"report"`
	Knows  uint8       `json:"knows,omitempty"` // what the node can do, as below
}

// What a node can do, each with all before it. An older one would ignore that silently.
const (
	knowsSupersede = 1 + iota
	knowsLast      = iota
)

// An Order is what the hub tells a node. An order that answers no report has no boot; it
// makes the roll known to the node.
type Order struct {
	Spec  Spec       `json:"spec"`
	Order roll.Order `json:"order"`
}
