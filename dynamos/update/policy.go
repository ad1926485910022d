// SPDX-License-Identifier: MIT

// Package update implements `skep update`. It builds packages from source patches,
// loads them into a running kernel, sets their policies, and reports their state.
// include/skep/dynamos.h is the interface to the kernel.
package update

import (
	"errors"
	"fmt"

	"skep/internal/uapi"
)

// A Policy is a list of rules, in the order in which the kernel evaluates them. The
// zero Policy selects no task.
type Policy struct {
	rules []uapi.DynamosRule
	open  bool // Add adds terms to the last rule
	all   bool
}

// Or begins another rule: tasks that match it also get the new version.
func (p *Policy) Or() error { return p.beginRule(1, "--or") }

// Except begins a rule for tasks that do not get the new version. It has precedence over later rules.
func (p *Policy) Except() error { return p.beginRule(0, "--except") }

func (p *Policy) beginRule(choice uint32, option string) error {
	switch {
	case p.open && p.lastRule().Terms == 0:
		return fmt.Errorf("the rule before %s has no terms", option)
	case len(p.rules) == 0 && option == "--or":
		return errors.New("it stands between two rules, and nothing is before it")
	case len(p.rules) == uapi.DynamosRules:
		return fmt.Errorf("a policy has at most %d rules", uapi.DynamosRules)
	}
	p.rules = append(p.rules, uapi.DynamosRule{Choice: choice})
	p.open = true
	return nil
}

func (p *Policy) lastRule() *uapi.DynamosRule { return &p.rules[len(p.rules)-1] }

// Add adds a term to the last rule; set fills in its value.
func (p *Policy) Add(term uint32, set func(*uapi.DynamosRule)) error {
	if !p.open {
		if err := p.beginRule(1, "it"); err != nil {
			return err
		}
	}
	r := p.lastRule()
	if r.Terms&term != 0 {
		return errors.New("this rule has one already, and all terms of a rule must hold: put --or before another rule")
	}
	r.Terms |= term
	set(r)
	return nil
}

// All gives the new version to all tasks that no rule matches.
func (p *Policy) All() { p.all = true }

// Given reports whether the policy has a rule, or All was called.
func (p *Policy) Given() bool { return p.all || len(p.rules) > 0 }

// Encode returns the policy in the kernel's format, or the error in its rules.
func (p *Policy) Encode() (uapi.DynamosPolicy, error) {
	out := uapi.DynamosPolicy{Rules: uint32(len(p.rules))}
	takes := p.all
	for i, r := range p.rules {
		if r.Terms == 0 {
			return out, errors.New("--or and --except begin a rule: name its terms behind them")
		}
		if r.Choice == 1 && p.all {
			return out, errors.New("--all is for everybody: leave the terms out, or put --except before them")
		}
		takes = takes || r.Choice == 1
		out.Rule[i] = r
	}
	if len(p.rules) > 0 && !takes {
		return out, errors.New("nobody would take the new version: put --or between who is excepted and who is not, or say --all")
	}
	if p.all {
		out.Otherwise = 1
	}
	return out, nil
}
