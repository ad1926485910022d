// SPDX-License-Identifier: MIT

// Package trust decides whether a node takes a kernel update, and whether it reverts one,
// by signatures of operators. The hub that relays packages has no key and is not trusted.
//
// A document is a canonical text with signatures below it. There are four kinds:
//
//	Package  what a package contains, how widely it may apply, until when it is valid
//	Revert   the order to revert a committed update
//	Included that a kernel contains the change of a package already
//	Keys     the operators' keys, how many must sign, and the lowest valid sequences
//
// State is what a node remembers. Its methods are pure: they take the time as an argument,
// and return the next State, which the caller stores before it acts.
package trust

import (
	"fmt"
	"time"
)

// A Refusal says why a node does not do what a document asks.
type Refusal struct {
	Name string // one of the names below; it never changes
	Why  string // a sentence
}

func (r *Refusal) Error() string { return r.Why }

// Names of refusals.
const (
	Unsigned  = "unsigned"   // there is no signature
	Malformed = "malformed"  // not a document in its canonical form
	Changed   = "changed"    // the package has other contents than those signed
	Mixed     = "mixed"      // the document is about another update or class
	Threshold = "threshold"  // too few operators signed
	Expired   = "expired"    // the document's time is over
	Future    = "future"     // signed later than now
	Clock     = "clock"      // this machine's clock was set back
	Older     = "older"      // a newer sequence was seen
	Reused    = "reused"     // the sequence was seen with other contents
	Wider     = "wider"      // the policy exceeds the widest signed policy
	Unlimited = "unlimited"  // the trial may last longer than signed
	Existing  = "existing"   // objects may exist that lack what the update relies on
	Blocked   = "blocked"    // the update failed on this node
	Stale     = "stale"      // the document of keys expired
	Unpinned  = "unpinned"   // this node has no keys
	OtherKeys = "other-keys" // a document of keys of another fleet
	Forged    = "forged"     // an audit line that does not belong to the log
	Cut       = "cut"        // the log ends before what was seen of it
)

func refusef(name, format string, args ...any) error {
	return &Refusal{name, fmt.Sprintf(format, args...)}
}

// Limits of documents. They bound what a parser reads and a state stores.
const (
	MaxDocument = 256 << 10
	maxKeys     = 32
	maxRules    = 16
	maxLines    = 256 // lines of updates, floors, revoked keys
	maxWord     = 55
	maxPath     = 1024
)

// clockSlack is the difference between clocks that is tolerated.
const clockSlack = 10 * time.Minute

// maxValid bounds the time for which a document is valid, so that no node takes a
// forgotten package years later.
const maxValid = 400 * 24 * time.Hour

// maxTrial is the longest trial: 49 days, as the kernel counts milliseconds in 32 bits.
const maxTrial = 49 * 24 * time.Hour
