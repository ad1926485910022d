// SPDX-License-Identifier: MIT

package policy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a policy's text.
const (
	TextMax  = 64 << 10
	rulesMax = 256
	termsMax = 16
	slotsMax = 1 << 16
	waitMax  = 30 * 24 * time.Hour
)

// Defaults of settings that a policy does not name.
const (
	PauseDefault  = 10 * time.Minute
	SettleDefault = 10 * time.Second
)

// A SyntaxError is a mistake in a policy's text.
type SyntaxError struct {
	Line int
	Text string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// Parse reads a policy. Its error joins a SyntaxError for each line with a mistake.
//
// A line is empty, a comment that begins with #, a setting `pause DURATION` or
// `settle DURATION`, or a rule: `use AMOUNT [when TERM [and TERM]...]`.
func Parse(text []byte) (*Policy, error) {
	if len(text) > TextMax {
		return nil, fmt.Errorf("a policy has at most %d bytes", TextMax)
	}
	p := &Policy{Pause: PauseDefault, Settle: SettleDefault}
	var wrong []error
	set := map[string]int{}
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, TextMax+1)
	for line := 1; in.Scan(); line++ {
		if err := p.parseLine(line, in.Text(), set); err != nil {
			wrong = append(wrong, &SyntaxError{line, err.Error()})
		}
	}
	if len(wrong) == 0 && len(p.Rules) == 0 {
		wrong = append(wrong, errors.New("there is no rule: write for example `use all when idle 15m`"))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return p, nil
}

func (p *Policy) parseLine(line int, text string, set map[string]int) error {
	if at := strings.IndexByte(text, '#'); at >= 0 {
		text = text[:at]
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case "use":
		return p.parseRule(line, words)
	case "pause", "settle":
		if first := set[words[0]]; first != 0 {
			return fmt.Errorf("%s is set in line %d already", words[0], first)
		}
		set[words[0]] = line
		to := &p.Pause
		if words[0] == "settle" {
			to = &p.Settle
		}
		if len(words) != 2 {
			return fmt.Errorf("%s takes one duration, such as 90s or 10m", words[0])
		}
		var err error
		*to, err = parseDuration(words[1])
		return err
	}
	return fmt.Errorf("a line begins with use, pause or settle, not with %q", words[0])
}

func (p *Policy) parseRule(line int, words []string) error {
	if len(p.Rules) == rulesMax {
		return fmt.Errorf("a policy has at most %d rules", rulesMax)
	}
	if n := len(p.Rules); n > 0 && len(p.Rules[n-1].When) == 0 {
		return fmt.Errorf("this rule is never reached, because line %d holds always", p.Rules[n-1].Line)
	}
	r := Rule{Line: line, Text: strings.Join(words, " ")}
	rest, err := r.Use.parse(words[1:])
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		if rest[0] != "when" {
			return fmt.Errorf("%q is not understood: after the amount comes when, or nothing", rest[0])
		}
		if r.When, err = parseTerms(rest[1:]); err != nil {
			return err
		}
	}
	p.Rules = append(p.Rules, r)
	return nil
}

var errAmount = errors.New("use needs an amount: all, none, a percentage such as 50%, or a number of slots such as `2 slots`")

// parse reads an amount and returns the words after it.
func (a *Amount) parse(words []string) ([]string, error) {
	if len(words) == 0 {
		return nil, errAmount
	}
	switch words[0] {
	case "all":
		a.Percent = 100
		return words[1:], nil
	case "none":
		return words[1:], nil
	}
	if strings.HasSuffix(words[0], "%") {
		var err error
		if a.Percent, err = parsePercent(words[0]); err != nil {
			return nil, err
		}
		return words[1:], nil
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 0 || n > slotsMax || len(words) < 2 || words[1] != "slots" && words[1] != "slot" {
		return nil, errAmount
	}
	a.Slots = n
	return words[2:], nil
}

func parseTerms(words []string) ([]Term, error) {
	var terms []Term
	for {
		end := slices.Index(words, "and")
		some := words
		if end >= 0 {
			some = words[:end]
		}
		t, err := parseTerm(some)
		if err != nil {
			return nil, err
		}
		if terms = append(terms, t); len(terms) > termsMax {
			return nil, fmt.Errorf("a rule has at most %d terms", termsMax)
		}
		if end < 0 {
			return terms, nil
		}
		words = words[end+1:]
	}
}

func parseTerm(words []string) (t Term, err error) {
	if len(words) > 0 && words[0] == "not" {
		t.Not, words = true, words[1:]
	}
	if len(words) == 0 {
		return t, errors.New("a condition is missing: write one of " + conditionList())
	}
	name, rest := words[0], words[1:]
	found := false
	for k, n := range kindNames {
		if n == name {
			t.Kind, found = k, true
		}
	}
	if !found {
		return t, fmt.Errorf("%q is not a condition: write one of %s", name, conditionList())
	}
	return t, t.parseRest(name, rest)
}

func (t *Term) parseRest(name string, rest []string) (err error) {
	wanted := map[Kind]int{Idle: 1, Hours: 1, Days: 1, Others: 2, Charge: 2, MemoryPressure: 2, IOPressure: 2}[t.Kind]
	if len(rest) != wanted {
		return fmt.Errorf("write %s, not %q", conditionForm(t.Kind), strings.Join(append([]string{name}, rest...), " "))
	}
	switch t.Kind {
	case Idle:
		t.For, err = parseDuration(rest[0])
	case Others, Charge, MemoryPressure, IOPressure:
		if rest[0] != "above" && rest[0] != "below" {
			return fmt.Errorf("write %s, not %q", conditionForm(t.Kind), name+" "+strings.Join(rest, " "))
		}
		t.Above = rest[0] == "above"
		t.Percent, err = parsePercent(rest[1])
	case Hours:
		t.From, t.To, err = parseHours(rest[0])
	case Days:
		t.Week, err = parseDays(rest[0])
	}
	return err
}

// conditionForm is how a kind of condition is written.
func conditionForm(k Kind) string {
	switch k {
	case Idle:
		return "idle DURATION"
	case Others, Charge, MemoryPressure, IOPressure:
		return kindNames[k] + " above N% or " + kindNames[k] + " below N%"
	case Hours:
		return "hours HH:MM-HH:MM"
	case Days:
		return "days mon-fri or days sat,sun"
	}
	return kindNames[k] + " without more words"
}

func conditionList() string {
	var names []string
	for k := Idle; k <= Days; k++ {
		names = append(names, kindNames[k])
	}
	return strings.Join(names, ", ")
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > waitMax {
		return 0, fmt.Errorf("%q is not a duration from 0s to %s, such as 90s, 15m or 2h30m", s, FormatDuration(waitMax))
	}
	return d, nil
}

func parsePercent(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") || math.IsNaN(v) || v <= 0 || v > 100 {
		return 0, fmt.Errorf("%q is not a percentage above 0%% and up to 100%%", s)
	}
	return v, nil
}

func parseHours(s string) (from, to int, err error) {
	a, b, ok := strings.Cut(s, "-")
	if ok {
		from, ok = parseClock(a)
	}
	if ok {
		to, ok = parseClock(b)
	}
	if !ok || from == to || from == 24*60 {
		return 0, 0, fmt.Errorf("%q is not a range of hours, such as 20:00-07:00", s)
	}
	return from, to, nil
}

// parseClock reads HH:MM up to 24:00 as minutes since midnight.
func parseClock(s string) (int, bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	h, err := strconv.ParseUint(s[:2], 10, 8)
	m, err2 := strconv.ParseUint(s[3:], 10, 8)
	if err != nil || err2 != nil || m > 59 || h > 24 || h == 24 && m != 0 {
		return 0, false
	}
	return int(h)*60 + int(m), true
}

func parseDays(s string) (week [7]bool, err error) {
	for part := range strings.SplitSeq(s, ",") {
		a, b, isRange := strings.Cut(part, "-")
		if !isRange {
			b = a
		}
		from, to := slices.Index(dayNames, a), slices.Index(dayNames, b)
		if from < 0 || to < 0 {
			return week, fmt.Errorf("%q is not a list of days, such as mon-fri or sat,sun", s)
		}
		for d := from; ; d = (d + 1) % 7 {
			week[d] = true
			if d == to {
				break
			}
		}
	}
	return week, nil
}
