// SPDX-License-Identifier: MIT

package rolls

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// A record is a roll as it is stored.
type record struct {
	Spec  Spec      `json:"spec"`
	Began time.Time `json:"began"`
	// Ceiling is above every time that a node was told. After a restart the roll's clock
	// begins there, because one that went back would make old reports look new.
	Ceiling time.Duration `json:"ceiling"`
	Roll    *roll.Hub     `json:"roll"`
	Log     []Entry       `json:"log"`
	Signed  []byte        `json:"signed,omitempty"` // the operators' document about the package
	// Others are those about the other packages, in the order of Spec.Variants.
	Others [][]byte `json:"others,omitempty"`
	// Functions are those that the package changes, sorted.
	Functions []string `json:"functions,omitempty"`
	// Contents are those of the packages, which stay when a package is signed once more.
	Contents []string `json:"contents,omitempty"`

	base    time.Duration // the roll's clock when this hub began
	began   time.Time
	ticked  time.Time
	asked   map[string]time.Time // when a node was told of it
	written mark
	orders  map[string]trust.Record // the operators' lines of the audit log, by the digest of the package
	audited map[string]bool         // who and what
	logged  roll.State              // the last one in the audit log
	by      string                  // who changes its state; "": the hub
	broken  error                   // it cannot be stored: no node gets an order
	figures map[string][]Function   // by node, as it told them last
}

// An Entry is a line of a roll's log.
type Entry struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// logMax bounds a log.
const logMax = 1000

func (r *record) note(now time.Time, text string) {
	if len(r.Log) > 0 && r.Log[len(r.Log)-1].Text == text {
		return // it could not be stored before
	}
	r.Log = append(r.Log, Entry{now.Round(0).UTC(), text})
	if len(r.Log) > logMax {
		r.Log = slices.Delete(r.Log, 0, len(r.Log)-logMax)
	}
}

// over reports whether a roll may be replaced or removed.
func (r *record) over() bool { return r.Roll.State == roll.Done || r.Roll.State == roll.Stopped }

// fill takes over what the hub needs of the packages.
func (r *record) fill(packages []*pack.Package) error {
	for i, about := range packages {
		content, err := about.Content()
		if err != nil {
			return err
		}
		r.Contents = append(r.Contents, content)
		if i == 0 {
			r.Signed = about.Signatures
		} else {
			r.Others = append(r.Others, about.Signatures)
		}
		r.Functions = append(r.Functions, about.Changed()...)
	}
	slices.Sort(r.Functions)
	r.Functions = slices.Compact(r.Functions)
	return nil
}

// marks name the packages in the list of harm: by their files, and by their contents.
func (r *record) marks() []string { return append(r.Spec.digests(), r.Contents...) }

// sharesFunction reports whether two updates change a function of the same name.
func (r *record) sharesFunction(other *record) bool {
	return slices.ContainsFunc(r.Functions, func(name string) bool {
		_, found := slices.BinarySearch(other.Functions, name)
		return found
	})
}

// rest returns how long the hub need not look at a roll that is over: a look at 10,000
// nodes takes 2 ms. A roll that is done still has nodes that catch up, and takes a longer
// rest for an absence of the hub.
func (r *record) rest() time.Duration {
	switch r.Roll.State {
	case roll.Done:
		return time.Second
	case roll.Stopped:
		return ceiling / 4
	}
	return 0
}

// A mark is what is compared to see whether a roll changed.
type mark struct {
	state   roll.State
	why     string
	begun   int
	blocked bool
	decided time.Duration
	members map[string]member
}

type member struct {
	goal   roll.Phase
	chosen bool
	failed string
}

func memberOf(m *roll.Member) member {
	if m == nil {
		return member{}
	}
	return member{m.Goal, m.Chosen, m.Failed}
}

func markOf(r *roll.Hub) mark {
	m := mark{state: r.State, why: r.Why, begun: r.Begun, blocked: r.Blocked, decided: r.Decided, members: make(map[string]member, len(r.Nodes))}
	for name, n := range r.Nodes {
		m.members[name] = memberOf(n)
	}
	return m
}

// changed reports whether a roll differs from the stored one. of is the only node that may
// have changed while the roll's own state is the same; "" if it may be any.
func (r *record) changed(of string) bool {
	w, h := &r.written, r.Roll
	if h.State != w.state || h.Why != w.why || h.Begun != w.begun || h.Blocked != w.blocked || h.Decided != w.decided || len(h.Nodes) != len(w.members) {
		return true
	}
	if of != "" {
		return memberOf(h.Nodes[of]) != w.members[of]
	}
	for name, n := range h.Nodes {
		if memberOf(n) != w.members[name] {
			return true
		}
	}
	return false
}

// describe returns lines about what changed since the roll was stored.
func (r *record) describe() (list []string) {
	w, h := &r.written, r.Roll
	if h.State != w.state || h.Why != w.why && h.Why != "" {
		text := h.State.String()
		if h.Why != "" {
			text += ": " + h.Why
		}
		list = append(list, text)
	}
	if h.Begun > w.begun {
		list = append(list, fmt.Sprintf("wave %d of %d begins", h.Begun, len(h.Plan.Waves)))
	}
	for _, name := range slices.Sorted(maps.Keys(h.Nodes)) {
		now, was := memberOf(h.Nodes[name]), w.members[name]
		switch {
		case now.failed != was.failed && now.failed != "":
			list = append(list, name+" is left out: "+now.failed)
		case now.goal != was.goal && now.chosen:
			list = append(list, fmt.Sprintf("%s: %v", name, now.goal))
		}
	}
	return list
}
