// SPDX-License-Identifier: MIT

package link

import (
	"debug/elf"
	"reflect"
	"strings"
	"testing"
)

func TestSectionsThatLieOutsideAreRefused(t *testing.T) {
	data := assembleObject(t, example)
	at := le.Uint64(data[40:]) + sectionSize // of the first section
	for name, spoil := range map[string]func(s *section){
		"a section begins behind the end of the file":            func(s *section) { s.offset = uint64(len(data)) + 1 },
		"a section ends behind the end of the file":              func(s *section) { s.size = uint64(len(data)) - s.offset + 1 },
		"a section's end exceeds 64 bits":                        func(s *section) { s.size = ^uint64(0) - s.offset + 2 },
		"a section begins at the end of the file and has a byte": func(s *section) { s.offset, s.size = uint64(len(data)), 1 },
	} {
		b := append([]byte(nil), data...)
		var s section
		s.load(b[at:])
		spoil(&s)
		s.store(b[at:])
		if _, err := UndefinedSymbols(b); err == nil || !strings.Contains(err.Error(), "its section 1 lies outside of it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the kernel reads are the numbers of its own headers.
func TestLivepatchSectionsHaveTheKernelsFlags(t *testing.T) {
	s := rewriteObject(t).Section(".klp.rela.vmlinux..text")
	if want := elf.SHF_ALLOC | elf.SHF_INFO_LINK | 0x00100000; s == nil || s.Flags != want {
		t.Errorf("got %+v, want %v", s, want)
	}
}

func TestTargetsAreListedOnceAndInOrder(t *testing.T) {
	got := SortTargets(map[string]Target{"b.1": {Name: "b", Position: 2}, "b.2": {Name: "b", Position: 2}, "b.3": {Name: "b", Position: 1}, "own_a": {Name: "a"}, "a": {Name: "a"}})
	if want := []Target{{Name: "a"}, {Name: "b", Position: 1}, {Name: "b", Position: 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
