// SPDX-License-Identifier: MIT

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A Wednesday, 12:00 local time.
var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.Local)

// atRest are the facts of a machine that nobody uses.
func atRest() *Facts {
	return &Facts{Time: noon, Idle: Say(time.Hour, ""), Others: Say(1.0, ""), Charge: Say(100.0, ""),
		MemoryPressure: Say(0.0, ""), IOPressure: Say(0.0, ""), Battery: Say(false, ""),
		FullScreen: Say(false, ""), Remote: Say(false, ""), Metered: Say(false, "")}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		when string
		set  func(*Facts)
		want Truth
	}{
		{"idle 1h", nil, True},
		{"idle 1h", func(f *Facts) { f.Idle.Value = time.Hour - 1 }, False},
		{"idle 1h", func(f *Facts) { f.Idle.Known = false }, Unknown},
		{"not idle 1h", nil, False},
		{"not idle 1h", func(f *Facts) { f.Idle.Known = false }, Unknown},
		{"others below 1%", nil, False},
		{"others below 1.5%", nil, True},
		{"others above 1%", nil, False},
		{"others above 0.5%", nil, True},
		{"others above 0.5%", func(f *Facts) { f.Others.Known = false }, Unknown},
		{"charge below 50%", nil, False},
		{"charge below 50%", func(f *Facts) { f.Charge.Value = 49 }, True},
		{"memory-pressure above 5%", func(f *Facts) { f.MemoryPressure.Value = 6 }, True},
		{"memory-pressure above 5%", func(f *Facts) { f.IOPressure.Value = 6 }, False},
		{"io-pressure above 5%", func(f *Facts) { f.IOPressure.Value = 6 }, True},
		{"battery", nil, False},
		{"battery", func(f *Facts) { f.Battery.Value = true }, True},
		{"battery", func(f *Facts) { f.Battery.Known = false }, Unknown},
		{"full-screen", func(f *Facts) { f.FullScreen.Value = true }, True},
		{"remote", func(f *Facts) { f.Remote.Value = true }, True},
		{"metered", func(f *Facts) { f.Metered.Value = true }, True},
		{"hours 12:00-13:00", nil, True},
		{"hours 11:00-12:00", nil, False},
		{"hours 12:01-11:59", nil, False},
		{"hours 22:00-12:01", nil, True},
		{"hours 00:00-24:00", nil, True},
		{"days mon-fri", nil, True},
		{"days sat,sun", nil, False},
		{"days sat-wed", nil, True},
		{"days thu-tue", nil, False},
		{"battery and idle 1h", nil, False},
		{"battery and idle 1h", func(f *Facts) { f.Battery.Known = false }, Unknown},
		{"battery and idle 2h", func(f *Facts) { f.Battery.Known = false }, False},
		{"idle 1h and not battery", nil, True},
	} {
		f := atRest()
		if c.set != nil {
			c.set(f)
		}
		p := mustParse(t, "use all when "+c.when)
		if got := p.Rules[0].Holds(f); got != c.want {
			t.Errorf("%s: %v, want %v", c.when, got, c.want)
		}
	}
}

func TestFirstRuleDecides(t *testing.T) {
	p := mustParse(t, `
# a comment
use none when battery   # another
use 1 slot when remote
use 50% when idle 2m
use 3 slots when idle 1m
`)
	for _, c := range []struct {
		set   func(*Facts)
		slots int
		why   string
	}{
		{nil, 4, "line 5: use 50% when idle 2m"},
		{func(f *Facts) { f.Idle.Value = time.Minute }, 3, "line 6: use 3 slots when idle 1m"},
		{func(f *Facts) { f.Idle.Value = 0 }, 0, "no rule holds"},
		{func(f *Facts) { f.Remote.Value = true }, 1, "line 4: use 1 slot when remote"},
		{func(f *Facts) { f.Remote.Value, f.Battery.Value = true, true }, 0, "line 3: use none when battery"},
		{func(f *Facts) { f.Battery = Silent[bool]("no source") }, 4, "line 5: use 50% when idle 2m"},
	} {
		f := atRest()
		if c.set != nil {
			c.set(f)
		}
		d := p.Decide(f, 8)
		if d.Slots != c.slots || d.Why() != c.why {
			t.Errorf("%d slots, %q; want %d, %q", d.Slots, d.Why(), c.slots, c.why)
		}
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		text string
		of   int
		want int
	}{{"all", 8, 8}, {"none", 8, 0}, {"50%", 8, 4}, {"50%", 7, 3}, {"1%", 8, 1}, {"100%", 3, 3},
		{"2 slots", 8, 2}, {"9 slots", 8, 8}, {"0 slots", 8, 0}, {"1 slot", 8, 1}} {
		if got := mustParse(t, "use "+c.text).Rules[0].Use.Of(c.of); got != c.want {
			t.Errorf("%s of %d: %d, want %d", c.text, c.of, got, c.want)
		}
	}
}

func TestSettings(t *testing.T) {
	p := mustParse(t, "use all")
	if p.Pause != PauseDefault || p.Settle != SettleDefault {
		t.Errorf("defaults: pause %v, settle %v", p.Pause, p.Settle)
	}
	p = mustParse(t, "use all\npause 0s\nsettle 1m30s")
	if p.Pause != 0 || p.Settle != 90*time.Second {
		t.Errorf("pause %v, settle %v", p.Pause, p.Settle)
	}
}

// Every mistake is named with its line and with what to write.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "there is no rule",
		"# nothing":                      "there is no rule",
		"run all":                        `line 1: a line begins with use, pause or settle, not with "run"`,
		"use":                            "line 1: use needs an amount",
		"use half":                       "line 1: use needs an amount",
		"use 2":                          "line 1: use needs an amount",
		"use -1 slots":                   "line 1: use needs an amount",
		"use 2 cats":                     "line 1: use needs an amount",
		"use 0%":                         `"0%" is not a percentage`,
		"use 101%":                       `"101%" is not a percentage`,
		"use NaN%":                       `"NaN%" is not a percentage`,
		"use all if idle 1m":             `"if" is not understood`,
		"use all when":                   "a condition is missing",
		"use all when not":               "a condition is missing",
		"use all when idle 1m and":       "a condition is missing",
		"use all when idle":              `write idle DURATION, not "idle"`,
		"use all when idle soon":         `"soon" is not a duration`,
		"use all when idle -5m":          `"-5m" is not a duration`,
		"use all when idle 721h":         `"721h" is not a duration`,
		"use all when sleeping":          `"sleeping" is not a condition: write one of idle, others,`,
		"use all when others 30%":        "write others above N% or others below N%",
		"use all when others at 30%":     "write others above N% or others below N%",
		"use all when others below 30":   `"30" is not a percentage`,
		"use all when battery low":       "write battery without more words",
		"use all when hours 9:00-17:00":  `"9:00-17:00" is not a range of hours`,
		"use all when hours 09:00-25:00": "is not a range of hours",
		"use all when hours 09:60-17:00": "is not a range of hours",
		"use all when hours 09:00-24:01": "is not a range of hours",
		"use all when hours 09:00-09:00": "is not a range of hours",
		"use all when hours 24:00-09:00": "is not a range of hours",
		"use all when days monday":       `"monday" is not a list of days`,
		"use all when days mon-":         `"mon-" is not a list of days`,
		"pause\nuse all":                 "line 1: pause takes one duration",
		"pause 1m\npause 2m\nuse all":    "line 2: pause is set in line 1 already",
		"use all\nuse none":              "line 2: this rule is never reached, because line 1 holds always",
		strings.Repeat("use 1 slot when battery\n", 257):            "line 257: a policy has at most 256 rules",
		"use all when battery" + strings.Repeat(" and battery", 16): "line 1: a rule has at most 16 terms",
		strings.Repeat("#", TextMax+1):                              "at most 65536 bytes",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
	_, err := Parse([]byte("use all when x\n\nuse all when y\n"))
	var s *SyntaxError
	if !errors.As(err, &s) || s.Line != 1 || !strings.Contains(err.Error(), "line 3: ") {
		t.Errorf("two mistakes: %v", err)
	}
}

// A term that is printed is read back as itself.
func TestTermsPrint(t *testing.T) {
	text := "idle 1h30m and not others above 12.5% and charge below 100% and memory-pressure above 1% and io-pressure below 2% " +
		"and battery and not full-screen and remote and metered and hours 22:00-07:30 and days sun,mon,sat and idle 1h and idle 90s"
	p := mustParse(t, "use all when "+text)
	var list []string
	for i := range p.Rules[0].When {
		list = append(list, p.Rules[0].When[i].String())
	}
	if got := strings.Join(list, " and "); got != strings.Replace(text, "idle 90s", "idle 1m30s", 1) {
		t.Errorf("printed as %s", got)
	}
}

func TestAsks(t *testing.T) {
	p := mustParse(t, "use none when battery and others above 5%\nuse all when idle 1m")
	var got []string
	for k := Idle; k <= Days; k++ {
		if p.Asks(k) {
			got = append(got, kindNames[k])
		}
	}
	if want := []string{"idle", "others", "battery"}; !slices.Equal(got, want) {
		t.Errorf("asks for %v, want %v", got, want)
	}
}

func TestBuiltins(t *testing.T) {
	if got := fmt.Sprint(BuiltinNames()); got != "[always desk share]" {
		t.Error(got)
	}
	busy := atRest()
	busy.Idle.Value = time.Second
	want := map[string][2]int{"always": {8, 8}, "desk": {8, 0}, "share": {8, 2}} // at rest, in use
	for _, name := range BuiltinNames() {
		text, _ := BuiltinText(name)
		p := mustParse(t, text)
		if got := [2]int{p.Decide(atRest(), 8).Slots, p.Decide(busy, 8).Slots}; got != want[name] {
			t.Errorf("%s permits %v, want %v", name, got, want[name])
		}
		for _, set := range []func(*Facts){func(f *Facts) { f.FullScreen.Value = true },
			func(f *Facts) { f.Battery.Value = true }, func(f *Facts) { f.MemoryPressure.Value = 30 }} {
			f := atRest()
			if set(f); name != "always" && p.Decide(f, 8).Slots != 0 {
				t.Errorf("%s permits work: %+v", name, f)
			}
		}
	}
	if _, ok := BuiltinText("laptop"); ok {
		t.Error("a policy named laptop")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range BuiltinNames() {
		text, _ := BuiltinText(name)
		f.Add([]byte(text))
	}
	f.Add([]byte("use 3 slots when not days fri-mon and hours 22:00-06:00\npause 1h\nsettle 0s"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		for i := range p.Rules {
			for j := range p.Rules[i].When {
				term := &p.Rules[i].When[j]
				again, err := Parse([]byte("use all when " + term.String()))
				if err != nil || again.Rules[0].When[0] != *term {
					t.Fatalf("%+v is printed as %q: %v", *term, term, err)
				}
			}
		}
		for _, cpus := range []int{1, 2, 64} {
			if d := p.Decide(atRest(), cpus); d.Slots < 0 || d.Slots > cpus {
				t.Fatalf("%d of %d slots", d.Slots, cpus)
			}
		}
	})
}
