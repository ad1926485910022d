// SPDX-License-Identifier: MIT

package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A script is a job and the events that it gets, one in a line, at the time of its clock.
type script struct {
	job *Job
	now time.Time
}

// event carries out one line of a script. Times are since the event before, and come first.
func (s *script) event(line string) []Action {
	f := strings.Fields(line)
	if d, err := time.ParseDuration(f[0]); err == nil {
		s.now, f = s.now.Add(d), f[1:]
	}
	j, leg, word := s.job, Leg(0), ""
	if len(f) > 1 {
		word = f[1]
		fmt.Sscan(f[1], &leg)
	}
	rest := strings.Join(f[min(len(f), 2):], " ")
	switch f[0] {
	case "ready":
		return j.Ready(s.now, leg)
	case "started":
		return j.Started(s.now, leg)
	case "refused":
		return j.Refused(s.now, leg, rest)
	case "lost":
		return j.Lost(s.now, leg, rest)
	case "exited":
		return j.Exited(leg)
	case "saved":
		return j.Saved(s.now, leg, j.serial, rest)
	case "unsaved":
		return j.NotSaved(s.now, leg, j.serial, rest)
	case "late": // an answer to the freeze before
		return append(j.Saved(s.now, leg, j.serial-1, rest), j.NotSaved(s.now, leg, j.serial-1, rest)...)
	case "move":
		return j.Move(s.now, word)
	case "leave":
		return j.Leave(s.now, word, map[string]string{"owner": OwnerNeeds, "off": ShutDown}[rest])
	case "found":
		return j.Found(s.now, word)
	case "checkpoint":
		return j.Checkpoint(s.now)
	case "full":
		return j.Full(s.now)
	case "tick":
		return j.Tick(s.now)
	case "stop":
		return j.Stop()
	}
	panic(line)
}

// show prints an action with all of its fields that are set.
func (a Action) show() string {
	verbs := [...]string{"open", "begin", "restore", "freeze", "resume", "kill", "pass", "drop", "forget", "find", "answer", "tell", "end"}
	text := verbs[a.Do]
	if a.Leg != 0 {
		text += fmt.Sprint(" ", a.Leg)
	}
	for _, word := range []string{a.Node, a.Image} {
		if word != "" {
			text += " " + word
		}
	}
	if a.Serial != 0 {
		text += fmt.Sprint(" #", a.Serial)
	}
	if a.Hold {
		text += " hold"
	}
	if a.All {
		text += " all"
	}
	before := " not "
	for _, node := range slices.Sorted(maps.Keys(a.Not)) {
		if a.Not[node] {
			text, before = text+before+node, ","
		}
	}
	if a.Text != "" {
		text += fmt.Sprintf(" %q", a.Text)
	}
	return text
}

// run carries out a script of lines "event -> actions; actions", or "event -> " with "(state)"
// at the end, and reports each line that is not so.
func run(t *testing.T, every time.Duration, lines string) {
	r := DefaultRules
	r.Every = every
	s := script{now: time.Unix(0, 0)}
	s.job, _ = New(s.now, r, "home")
	got := ""
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		line = strings.TrimSpace(line)
		event, _, _ := strings.Cut(line, " ->")
		var list []string
		for _, a := range s.event(event) {
			list = append(list, a.show())
		}
		state, leg, node := s.job.State()
		now := fmt.Sprintf("%s -> %s (%v, %d at %s)", event, strings.Join(list, "; "), state, leg, node)
		if now != line {
			t.Errorf("%s\n\tis not\n\t%s", now, line)
		}
		got += now + "\n"
	}
	if t.Failed() {
		t.Log("\n" + got)
	}
}

// A node that refused a program is known until the program runs elsewhere.
func TestHasRefused(t *testing.T) {
	s := script{now: time.Unix(0, 0)}
	s.job, _ = New(s.now, DefaultRules, "a")
	for _, line := range []string{"ready 1", "started 1", "move b", "refused 2 it has another library"} {
		s.event(line)
	}
	if !s.job.HasRefused("b") || s.job.HasRefused("c") {
		t.Error("b has refused it, and c has not")
	}
	for _, line := range []string{"move c", "ready 3", "saved 1 i", "started 3"} {
		s.event(line)
	}
	if s.job.HasRefused("b") {
		t.Error("it was refused elsewhere")
	}
}
