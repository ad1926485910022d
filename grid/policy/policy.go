// SPDX-License-Identifier: MIT

// Package policy decides how much of a machine remote programs may use while its
// owner works, plays, runs on battery, or is away.
//
// A policy is a text that the owner writes: rules of which the first that holds
// decides. Facts are what the machine's sources say at one moment. Machine is a pure
// state machine on top of both: it is told the time, the facts and the calls that
// run, and answers which of them to pause, resume or give back. It reads no clock and
// no file. The subpackage sources reads the facts.
package policy

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A Policy is what an owner permits.
type Policy struct {
	Rules  []Rule
	Pause  time.Duration // a call that has been paused for this long goes back to the hub
	Settle time.Duration // more is used only after it was permitted for this long
}

// A Rule permits an amount while all its terms hold.
type Rule struct {
	Line int    // in the text, from 1
	Text string // as the owner wrote it, with single spaces
	Use  Amount
	When []Term
}

// An Amount is a part of the machine's slots, or a number of them. A slot runs one worker;
// a machine has one for each processor unless its owner says otherwise.
type Amount struct {
	Percent float64 // of the slots; 100 is all
	Slots   int     // if Percent is 0
}

// Of is the amount in slots of a machine that has n. Any share above zero is at
// least one slot.
func (a Amount) Of(n int) int {
	if a.Percent == 0 {
		return min(a.Slots, n)
	}
	return min(max(int(math.Floor(a.Percent*float64(n)/100)), 1), n)
}

// A Kind is what a term asks about.
type Kind int

const (
	Idle           Kind = iota // no keyboard or mouse input for Term.For
	Others                     // processor use of programs that are not Skep's
	Charge                     // of the battery
	MemoryPressure             // share of time in which programs wait for memory
	IOPressure                 // or for disks
	Battery                    // the machine runs on battery
	FullScreen                 // a program covers the whole screen
	Remote                     // somebody uses the machine over the network
	Metered                    // the network connection costs by volume
	Hours                      // the local time of day
	Days                       // the day of the week
)

var kindNames = map[Kind]string{Idle: "idle", Others: "others", Charge: "charge",
	MemoryPressure: "memory-pressure", IOPressure: "io-pressure", Battery: "battery",
	FullScreen: "full-screen", Remote: "remote", Metered: "metered", Hours: "hours", Days: "days"}

var dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// String is the word for a kind in a policy.
func (k Kind) String() string { return kindNames[k] }

// A Term is one condition of a rule.
type Term struct {
	Kind    Kind
	Not     bool
	For     time.Duration // Idle
	Above   bool          // of the kinds with a percentage: above Percent, else below
	Percent float64
	From    int     // Hours: minutes since midnight; From > To passes midnight
	To      int     // exclusive
	Week    [7]bool // Days, by time.Weekday
}

// A Truth is the value of a term: a source may say nothing.
type Truth int

const (
	Unknown Truth = iota
	False
	True
)

func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// A Fact is what one source says, if it says anything.
type Fact[T any] struct {
	Value T
	Known bool
	From  string // the source, or why it says nothing; for people
}

// Say makes a fact that is known.
func Say[T any](v T, from string) Fact[T] { return Fact[T]{Value: v, Known: true, From: from} }

// Silent makes a fact that no source knows.
func Silent[T any](why string) Fact[T] { return Fact[T]{From: why} }

// Facts are what a machine's sources say at one moment. Shares are percentages.
type Facts struct {
	Time           time.Time // local
	Idle           Fact[time.Duration]
	Others         Fact[float64]
	Charge         Fact[float64]
	MemoryPressure Fact[float64]
	IOPressure     Fact[float64]
	Battery        Fact[bool]
	FullScreen     Fact[bool]
	Remote         Fact[bool]
	Metered        Fact[bool]
}

// Holds says whether a term holds. The opposite of what is unknown is unknown.
func (t *Term) Holds(f *Facts) Truth {
	v := t.holds(f)
	switch {
	case v == Unknown || !t.Not:
		return v
	case v == True:
		return False
	}
	return True
}

func (t *Term) holds(f *Facts) Truth {
	switch t.Kind {
	case Idle:
		if !f.Idle.Known {
			return Unknown
		}
		return truthOf(f.Idle.Value >= t.For)
	case Others:
		return t.compare(f.Others)
	case Charge:
		return t.compare(f.Charge)
	case MemoryPressure:
		return t.compare(f.MemoryPressure)
	case IOPressure:
		return t.compare(f.IOPressure)
	case Battery:
		return given(f.Battery)
	case FullScreen:
		return given(f.FullScreen)
	case Remote:
		return given(f.Remote)
	case Metered:
		return given(f.Metered)
	case Hours:
		now := f.Time.Hour()*60 + f.Time.Minute()
		if t.From <= t.To {
			return truthOf(t.From <= now && now < t.To)
		}
		return truthOf(now >= t.From || now < t.To)
	case Days:
		return truthOf(t.Week[f.Time.Weekday()])
	}
	return Unknown
}

func (t *Term) compare(f Fact[float64]) Truth {
	switch {
	case !f.Known:
		return Unknown
	case t.Above:
		return truthOf(f.Value > t.Percent)
	}
	return truthOf(f.Value < t.Percent)
}

func given(f Fact[bool]) Truth {
	if !f.Known {
		return Unknown
	}
	return truthOf(f.Value)
}

// Holds says whether all terms of a rule hold.
func (r *Rule) Holds(f *Facts) Truth {
	all := True
	for i := range r.When {
		switch r.When[i].Holds(f) {
		case False:
			return False
		case Unknown:
			all = Unknown
		}
	}
	return all
}

// A Decision is the amount that a policy permits at one moment.
type Decision struct {
	Slots int
	Rule  *Rule // that decided; nil: no rule holds, so nothing is permitted
}

// Decide gives what the first rule that holds permits on a machine with n slots.
// A rule with a term that no source knows does not hold.
func (p *Policy) Decide(f *Facts, n int) Decision {
	for i := range p.Rules {
		if r := &p.Rules[i]; r.Holds(f) == True {
			return Decision{r.Use.Of(n), r}
		}
	}
	return Decision{}
}

// Asks says whether a rule has a term of a kind, so that its source is worth reading.
func (p *Policy) Asks(k Kind) bool {
	for _, r := range p.Rules {
		for _, t := range r.When {
			if t.Kind == k {
				return true
			}
		}
	}
	return false
}

// Why is a decision in words.
func (d Decision) Why() string {
	if d.Rule == nil {
		return "no rule holds"
	}
	return fmt.Sprintf("line %d: %s", d.Rule.Line, d.Rule.Text)
}

// String is a term as its owner would write it.
func (t *Term) String() string {
	words := []string{}
	if t.Not {
		words = append(words, "not")
	}
	words = append(words, kindNames[t.Kind])
	switch t.Kind {
	case Idle:
		words = append(words, FormatDuration(t.For))
	case Others, Charge, MemoryPressure, IOPressure:
		side := "below"
		if t.Above {
			side = "above"
		}
		words = append(words, side, fmt.Sprintf("%g%%", t.Percent))
	case Hours:
		words = append(words, fmt.Sprintf("%02d:%02d-%02d:%02d", t.From/60, t.From%60, t.To/60, t.To%60))
	case Days:
		words = append(words, dayList(t.Week))
	}
	return strings.Join(words, " ")
}

// FormatDuration writes a duration without units of zero: 15m, not 15m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// dayList writes the days of a term.
func dayList(week [7]bool) string {
	var list []string
	for d, on := range week {
		if on {
			list = append(list, dayNames[d])
		}
	}
	return strings.Join(list, ",")
}
