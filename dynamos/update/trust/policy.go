// SPDX-License-Identifier: MIT

package trust

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"skep/internal/uapi"
)

// A Policy is the widest that operators signed. Tasks that an except rule matches never
// get the update. Of the others, those get it at most that an allow rule matches, or all
// if Others is set.
type Policy struct {
	Except, Allow []Rule
	Others        bool
}

// A Rule matches tasks for which all its terms hold.
type Rule struct {
	Terms    uint32 // of uapi.DynamosComm, UID, GID, Cgroup and Share
	Comm     string
	UID, GID uint32
	Cgroup   string // path: numbers of cgroups differ between nodes
	Share    uint32 // of uapi.DynamosShareMax
	Per      uint32 // of what it is a share: uapi.DynamosPerProcess, PerUID or PerCgroup
}

// signedTerms are terms that mean the same on every node and in every boot.
const signedTerms = uapi.DynamosComm | uapi.DynamosUID | uapi.DynamosGID | uapi.DynamosCgroup | uapi.DynamosShare

// String returns the terms in the canonical form.
func (r Rule) String() string {
	var list []string
	for _, t := range []struct {
		bit  uint32
		text string
	}{
		{uapi.DynamosComm, "comm=" + r.Comm},
		{uapi.DynamosUID, fmt.Sprintf("uid=%d", r.UID)},
		{uapi.DynamosGID, fmt.Sprintf("gid=%d", r.GID)},
		{uapi.DynamosCgroup, "cgroup=" + r.Cgroup},
		{uapi.DynamosShare, fmt.Sprintf("share=%d%s", r.Share, perSuffix[r.Per])},
	} {
		if r.Terms&t.bit != 0 {
			list = append(list, t.text)
		}
	}
	return strings.Join(list, " ")
}

func parseRule(text string) (r Rule, err error) {
	for _, term := range strings.Fields(text) {
		name, value, _ := strings.Cut(term, "=")
		bit, ok := r.set(name, value)
		if !ok || r.Terms&bit != 0 {
			return r, fmt.Errorf("%.80q is not a term: comm=NAME, uid=N, gid=N, cgroup=/PATH, share=N%%, share=N%%:uid or share=N%%:cgroup, each once", term)
		}
		r.Terms |= bit
	}
	if r.Terms == 0 {
		return r, fmt.Errorf("a rule has no terms")
	}
	return r, nil
}

// set stores a term's value. It returns the term's bit.
func (r *Rule) set(name, value string) (bit uint32, ok bool) {
	number := func(to *uint32) bool {
		n, err := strconv.ParseUint(value, 10, 32)
		*to = uint32(n)
		return err == nil
	}
	switch name {
	case "comm":
		r.Comm = value
		return uapi.DynamosComm, value != "" && len(value) < 16
	case "uid":
		return uapi.DynamosUID, number(&r.UID)
	case "gid":
		return uapi.DynamosGID, number(&r.GID)
	case "cgroup":
		r.Cgroup = value
		return uapi.DynamosCgroup, path.IsAbs(value) && path.Clean(value) == value && len(value) <= maxPath
	case "share":
		value, r.Per = CutPer(value)
		if percent, cut := strings.CutSuffix(value, "%"); cut {
			n, err := strconv.ParseUint(percent, 10, 7)
			r.Share = uint32(n * uapi.DynamosShareMax / 100)
			return uapi.DynamosShare, err == nil && n >= 1 && n <= 100
		}
		return uapi.DynamosShare, number(&r.Share) && r.Share >= 1 && r.Share <= uapi.DynamosShareMax
	}
	return 0, false
}

// perSuffix stands behind a share that is not one of processes.
var perSuffix = [...]string{uapi.DynamosPerProcess: "", uapi.DynamosPerUID: ":uid", uapi.DynamosPerCgroup: ":cgroup"}

// CutPer cuts off what a share is of: ":uid", ":cgroup", or nothing for processes.
func CutPer(text string) (share string, per uint32) {
	for per := uint32(uapi.DynamosPerUID); per < uint32(len(perSuffix)); per++ {
		if share, ok := strings.CutSuffix(text, perSuffix[per]); ok {
			return share, per
		}
	}
	return text, uapi.DynamosPerProcess
}

// ParsePolicy reads a policy as people type it: "all", "uid=1000, cgroup=/jobs share=10%" or
// "all, except comm=sshd".
func ParsePolicy(text string) (p Policy, err error) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		terms, except := strings.CutPrefix(part, "except ")
		if part == "all" {
			p.Others = true
			continue
		}
		r, err := parseRule(terms)
		if err != nil {
			return p, err
		}
		if except {
			p.Except = append(p.Except, r)
		} else {
			p.Allow = append(p.Allow, r)
		}
	}
	return p, p.check()
}

func (p *Policy) check() error {
	switch {
	case p.Others && len(p.Allow) > 0:
		return fmt.Errorf("all tasks are allowed, and some are named: leave one out")
	case !p.Others && len(p.Allow) == 0:
		return fmt.Errorf("no task is allowed")
	case len(p.Allow)+len(p.Except) > maxRules:
		return fmt.Errorf("a policy has at most %d rules", maxRules)
	}
	for _, r := range p.Except {
		if r.Terms&uapi.DynamosShare != 0 {
			return fmt.Errorf("a share cannot be excepted, because it is not known which tasks belong to it")
		}
	}
	return nil
}

// String returns the policy as ParsePolicy reads it.
func (p Policy) String() string {
	var list []string
	if p.Others {
		list = append(list, "all")
	}
	for _, r := range p.Allow {
		list = append(list, r.String())
	}
	for _, r := range p.Except {
		list = append(list, "except "+r.String())
	}
	return strings.Join(list, ", ")
}

func (p *Policy) encode(b *strings.Builder) {
	for _, r := range p.Except {
		fmt.Fprintf(b, "except %s\n", r)
	}
	for _, r := range p.Allow {
		fmt.Fprintf(b, "allow %s\n", r)
	}
	if p.Others {
		b.WriteString("allow-others yes\n")
	}
}

func (p *Policy) decode(r *textReader) {
	read := func(key string, list *[]Rule) {
		for r.has(key) {
			rule, err := parseRule(r.value(key))
			if err != nil || len(*list) == maxRules {
				r.fail("a rule of the policy: %v", err)
				return
			}
			*list = append(*list, rule)
		}
	}
	read("except", &p.Except)
	read("allow", &p.Allow)
	if r.has("allow-others") {
		p.Others = r.value("allow-others") == "yes"
	}
	if err := p.check(); err != nil {
		r.fail("its policy: %v", err)
	}
}

// Kernel returns the policy in the kernel's format, for calls before until (CLOCK_BOOTTIME,
// ns), or without an end if until is 0. number returns a cgroup's number on this machine.
func (p *Policy) Kernel(until uint64, number func(path string) (uint64, error)) (k uapi.DynamosPolicy, err error) {
	add := func(r Rule, choice uint32) {
		rule := &k.Rule[k.Rules]
		k.Rules++
		*rule = uapi.DynamosRule{Terms: r.Terms, Choice: choice, UID: r.UID, GID: r.GID, Share: r.Share, Per: r.Per}
		copy(rule.Comm[:], r.Comm)
		if r.Terms&uapi.DynamosCgroup != 0 && err == nil {
			rule.Cgroup, err = number(r.Cgroup)
		}
		if choice != 0 && until != 0 {
			rule.Terms |= uapi.DynamosWindow
			rule.Until = until
		}
	}
	if err := p.check(); err != nil {
		return k, err
	}
	allow := p.Allow
	switch {
	case p.Others && until == 0:
		k.Otherwise = 1
	case p.Others:
		allow = []Rule{{}}
	}
	if len(p.Except)+len(allow) > uapi.DynamosRules {
		return k, fmt.Errorf("a policy with an end has at most %d rules", uapi.DynamosRules)
	}
	for _, r := range p.Except {
		add(r, 0)
	}
	for _, r := range allow {
		add(r, 1)
	}
	return k, err
}

// Contains reports whether no task gets the update by the kernel's policy k that may not
// get it by p. If it is not certain, the answer is no. cgroup returns the path of a
// cgroup, or "".
func (p *Policy) Contains(k *uapi.DynamosPolicy, cgroup func(uint64) string) bool {
	if k.Rules > uapi.DynamosRules || k.Otherwise != 0 && !p.Others {
		return false
	}
	excepted, allows := make([]bool, len(p.Except)), false
	for i := range k.Rule[:k.Rules] {
		r := kernelRule(&k.Rule[i], cgroup)
		if k.Rule[i].Choice != 0 {
			allows = true
			if !p.allowsRule(r) {
				return false
			}
			continue
		}
		for j, e := range p.Except {
			// Only a rule before all others excepts from all of them.
			excepted[j] = excepted[j] || !allows && r.Terms&^(signedTerms&^uapi.DynamosShare) == 0 && r.covers(e)
		}
	}
	for _, done := range excepted {
		if !done && (allows || k.Otherwise != 0) {
			return false
		}
	}
	return true
}

func (p *Policy) allowsRule(r Rule) bool {
	for _, a := range p.Allow {
		if a.covers(r) {
			return true
		}
	}
	return p.Others
}

// kernelRule returns a rule of the kernel, with terms that a signed rule cannot have.
func kernelRule(k *uapi.DynamosRule, cgroup func(uint64) string) Rule {
	r := Rule{Terms: k.Terms, Comm: uapi.Text(k.Comm[:]), UID: k.UID, GID: k.GID, Share: k.Share, Per: k.Per}
	if k.Terms&uapi.DynamosCgroup != 0 {
		r.Cgroup = cgroup(k.Cgroup)
	}
	return r
}

// covers reports whether each task that n matches is one that r matches.
func (r Rule) covers(n Rule) bool {
	both := func(bit uint32, implied bool) bool { return r.Terms&bit == 0 || n.Terms&bit != 0 && implied }
	return both(uapi.DynamosComm, r.Comm == n.Comm) && both(uapi.DynamosUID, r.UID == n.UID) &&
		both(uapi.DynamosGID, r.GID == n.GID) && both(uapi.DynamosShare, n.Share <= r.Share && n.Per == r.Per) &&
		both(uapi.DynamosCgroup, below(n.Cgroup, r.Cgroup))
}

// below reports whether a cgroup is another one or below it. The path of a cgroup that is
// gone is empty, and below none.
func below(name, top string) bool {
	return name == top || strings.HasPrefix(name, strings.TrimSuffix(top, "/")+"/")
}
