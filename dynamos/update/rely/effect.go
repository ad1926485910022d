// SPDX-License-Identifier: MIT

package rely

import (
	"fmt"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// Names of functions tell what those of other files do. One that initializes something
// sets it up; all others rely on what they are given.
var (
	initializer = lazy.Regexp(`(^|_)(init|INIT|setup|initialize)(_|$)`)
	maker       = lazy.Regexp(`alloc|(^|_)(create|dup|clone|new|kmemdup|kstrdup)(_|$)`)
	taker       = lazy.Regexp(`(^|_)(get|hold|inc|request|register|enable|open|prepare|grab|acquire|ref|start|add|queue|schedule|mod|attach|link|pin)(_|$)`)
	releaser    = lazy.Regexp(`free|(^|_)(put|drop|dec|release|unregister|disable|close|unprepare|del|remove|destroy|cancel|unref|deref|flush|kill|stop|detach|unlink|unpin|shutdown|delete|exit|cleanup)(_|$)`)
)

// content is what a statement does, without the compiler's numbers.
func (s *step) content() string {
	return fmt.Sprint(s.call, s.sets, s.uses, s.points, s.makes, s.args)
}

// setsOf are the places that a statement sets up: what it writes, and what it has a
// function initialize.
func setsOf(s *step) []place {
	out := slices.Clone(s.sets)
	if initializer().MatchString(s.call) {
		for _, a := range s.args {
			out = append(out, a.to...)
		}
	}
	return out
}

// usesOf are the places that a statement relies on. What a function that can be read
// does with its arguments, it tells itself.
func (v *version) usesOf(s *step) []place {
	out := slices.Clone(s.uses)
	if s.call != "" && !initializer().MatchString(s.call) && v.functions[s.call] == nil {
		for _, a := range s.args {
			out = append(out, a.to...)
		}
	}
	return out
}

// madeOf are the structures that a statement makes. What a function of the patched files
// returns, it may have found.
func (v *version) madeOf(s *step) (kinds []string) {
	f := v.functions[s.call]
	if own := f != nil && v.texts[f.file] != nil; !own && maker().MatchString(s.call) && s.makes != "" {
		kinds = append(kinds, s.makes)
	}
	if initializer().MatchString(s.call) && len(s.args) > 0 && s.args[0].kind != "" {
		kinds = append(kinds, s.args[0].kind)
	}
	return kinds
}

// givenOf are the structures that a statement passes to a function that does not make them.
func (v *version) givenOf(s *step) []string {
	made := v.madeOf(s)
	return slices.DeleteFunc(kindsOf(s), func(k string) bool { return slices.Contains(made, k) })
}

// takenOf are the structures that a statement makes, or takes a reference to.
func (v *version) takenOf(s *step) []string {
	kinds := v.madeOf(s)
	if taker().MatchString(s.call) && !releaser().MatchString(s.call) {
		kinds = append(kinds, kindsOf(s)...)
		if s.makes != "" {
			kinds = append(kinds, s.makes)
		}
	}
	return kinds
}

// releasedOf are those that it gives back.
func releasedOf(s *step) []string {
	if !releaser().MatchString(s.call) {
		return nil
	}
	return kindsOf(s)
}

// releasedPlaces are where the pointers lie that a statement gives back.
func releasedPlaces(s *step) (out []place) {
	if releaser().MatchString(s.call) {
		for _, a := range s.args {
			out = append(append(out, a.from...), a.to...)
		}
	}
	return out
}

// kindsOf are the structures that a call is given.
func kindsOf(s *step) (kinds []string) {
	for _, a := range s.args {
		if a.kind != "" {
			kinds = append(kinds, a.kind)
		}
	}
	return kinds
}

// overlaps reports whether one place is the other, or a part of it.
func (p place) overlaps(q place) bool {
	return p.owner == q.owner && (p.path == q.path || isPart(p.path, q.path) || isPart(q.path, p.path))
}

func isPart(part, whole string) bool { return whole == "" || strings.HasPrefix(part, whole+".") }

func overlapsOne(p place, list []place) bool { return slices.ContainsFunc(list, p.overlaps) }

// A placeSet has places and all that they are parts of.
type placeSet struct{ exact, wholes map[place]bool }

func (s placeSet) add(p place) {
	s.exact[p] = true
	for _, w := range wholesOf(p) {
		s.wholes[w] = true
	}
}

// overlaps reports whether a place is one of the set, or a part of one, or has one.
func (s placeSet) overlaps(p place) bool {
	return s.exact[p] || s.wholes[p] || slices.ContainsFunc(wholesOf(p), func(w place) bool { return s.exact[w] })
}

// wholesOf are what a place is a part of.
func wholesOf(p place) (out []place) {
	if p.path == "" {
		return nil
	}
	for i := len(p.path) - 1; i > 0; i-- {
		if p.path[i] == '.' {
			out = append(out, place{p.owner, p.path[:i]})
		}
	}
	return append(out, place{p.owner, ""})
}
