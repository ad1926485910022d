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
	"slices"
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
	// Variants are all packages of the update, if there are several; the first is Package.
	Variants []Variant `json:"variants,omitempty"`
	// Supersede: older updates of the same functions stay in force below this one, and leave
	// when it is committed.
	Supersede bool `json:"supersede,omitempty"`
}

// A Variant is one of several packages of an update, and the kernels that it is for.
type Variant struct {
	Package string   `json:"package"`
	Kernels []string `json:"kernels"` // build-ids
}

// NewVariants returns the variants of an update from its packages, which these digests name.
// One package has none.
func NewVariants(digests []string, packages []*pack.Package) (list []Variant, err error) {
	release := map[string]string{}
	for i, p := range packages {
		if p.Name != packages[0].Name || p.Class != packages[0].Class {
			return nil, fmt.Errorf("the packages are not of one update: %s of class %s, and %s of class %s", packages[0].Name, packages[0].Class, p.Name, p.Class)
		}
		v := Variant{Package: digests[i]}
		for _, k := range p.Kernels {
			if release[k.BuildID] != "" {
				return nil, fmt.Errorf("two packages are for the kernel %s (%s): give one of them", k.Release, k.Version)
			}
			release[k.BuildID] = k.Release
			v.Kernels = append(v.Kernels, k.BuildID)
		}
		list = append(list, v)
	}
	if len(list) < 2 {
		return nil, nil
	}
	return list, nil
}

// CheckObjects refuses packages whose code relies on what existing objects lack, unless
// their operators stated why those do no harm: every node would refuse them.
func CheckObjects(packages []*pack.Package) error {
	for _, p := range packages {
		if !p.ReliesOnState() {
			continue
		}
		doc, err := trust.ParseSigned(p.Signatures)
		if err != nil {
			return err
		}
		said, err := trust.ParsePackage(doc.Text)
		if err != nil {
			return err
		}
		if said.ObjectsExist == "" {
			return &trust.Refusal{Name: trust.Existing, Why: fmt.Sprintf(
				"%s relies on what existing objects lack, and its operators did not state why they do no harm: sign it anew with --replace --objects-exist REASON", p.Name)}
		}
	}
	return nil
}

// PackageFor returns the digest of the package for the kernel of this build-id.
func (s *Spec) PackageFor(build string) (digest string, ok bool) {
	for _, v := range s.Variants {
		if slices.Contains(v.Kernels, build) {
			return v.Package, true
		}
	}
	return s.Package, len(s.Variants) == 0
}

// digests returns those of all packages.
func (s *Spec) digests() []string {
	list := []string{s.Package}
	for _, v := range s.Variants[min(1, len(s.Variants)):] {
		list = append(list, v.Package)
	}
	return list
}

// checkVariants returns what is wrong with the variants.
func (s *Spec) checkVariants() error {
	kernels := map[string]bool{}
	for _, v := range s.Variants {
		if !isHex(v.Package, digestHex) || len(v.Kernels) == 0 || len(v.Kernels) > pack.MaxKernels {
			return fmt.Errorf("a package of several is not named by its digest and its kernels")
		}
		for _, build := range v.Kernels {
			if !isHex(build, buildHex) || kernels[build] {
				return fmt.Errorf("a package of several names no kernel, or one twice")
			}
			kernels[build] = true
		}
	}
	if n := len(s.Variants); n == 1 || n > variantsMax || n > 0 && s.Variants[0].Package != s.Package {
		return fmt.Errorf("%d packages of an update, of which %.10s is the first, are not possible", n, s.Package)
	}
	return nil
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
	buildHex  = 40
	// variantsMax packages of one update
	variantsMax = 32
	policyMax   = 16 << 10
	textMax     = 512 // of a sentence of a node
	insideMax   = 16  // tasks that a report names
	// functionsMax functions of one update, as the module has it
	functionsMax = 64
	nodesMax     = 10000
	rollsMax     = 64 // of a hub, and of a node
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
	case !isHex(s.Package, digestHex):
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
	return s.checkVariants()
}

func isDigest(s string) bool { return isHex(s, digestHex) }

// isHex reports whether a text has so many lower-case hex digits, and nothing else.
func isHex(s string, digits int) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == digits
}

// A Report is what a node says about one roll.
type Report struct {
	ID     string      `json:"id"`
	Report roll.Report `json:"report"`
	Knows  uint8       `json:"knows,omitempty"` // what the node can do, as below
	// Seen is how far this node has seen the hub's audit log; nil: it does not follow the log.
	Seen *trust.Seen `json:"seen,omitempty"`
	// Functions are figures for people, which come less often than the report.
	Functions []Function `json:"functions,omitempty"`
}

// Figures of an update in a node's kernel.
type (
	Function = roll.Function
	Version  = roll.Version
)

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
	Audit *Growth    `json:"audit,omitempty"` // since what the report has seen
}
