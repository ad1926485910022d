// SPDX-License-Identifier: MIT

package link

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// sectionAt returns the place of a section's header.
func sectionAt(t *testing.T, data []byte, name string) int {
	t.Helper()
	m, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range m.sections {
		if s.name == name {
			return int(le.Uint64(data[40:])) + i*sectionSize
		}
	}
	t.Fatalf("no section %s", name)
	return 0
}

// Each field that is checked has a value that is refused beside one that is taken.
func TestDamagedModuleIsRefused(t *testing.T) {
	whole := assembleObject(t, example)
	count := uint64(le.Uint16(whole[60:]))
	symtab, names := sectionAt(t, whole, ".symtab"), sectionAt(t, whole, ".shstrtab")
	for name, c := range map[string]struct {
		at, size int
		value    uint64
		why      string
	}{
		"as it is":                     {0, 1, 0x7f, ""},
		"no ELF file":                  {0, 1, 0x7e, "it is not a module for x86-64"},
		"a 32-bit one":                 {4, 1, 1, "it is not a module for x86-64"},
		"big-endian":                   {5, 1, 2, "it is not a module for x86-64"},
		"a program":                    {16, 2, 2, "it is not a module for x86-64"},
		"of another machine":           {18, 2, 183, "it is not a module for x86-64"},
		"headers of another size":      {58, 2, 65, "its table of sections is damaged"},
		"no sections":                  {60, 2, 0, "its table of sections is damaged"},
		"too many sections":            {60, 2, 0xff00, "its table of sections is damaged"},
		"one section more":             {60, 2, count + 1, "its table of sections is damaged"},
		"names in no section":          {62, 2, count, "its table of sections is damaged"},
		"a table behind the end":       {40, 8, uint64(len(whole)) + 1, "its table of sections is damaged"},
		"a table at the end":           {40, 8, uint64(len(whole)), "its table of sections is damaged"},
		"no symbols":                   {symtab + 4, 4, 1, "it has no symbols"},
		"relocations without addends":  {sectionAt(t, whole, ".rela.text") + 4, 4, typeRel, "it has relocations without addends"},
		"symbols without names":        {symtab + 40, 4, 1, "its symbols have no names"},
		"names of symbols nowhere":     {symtab + 40, 4, count, "its symbols have no names"},
		"a name behind the table":      {sectionAt(t, whole, ".text"), 4, 1 << 20, "a name lies outside of its table"},
		"names that are cut off":       {names + 32, 8, 3, "a name lies outside of its table"},
		"relocations of no section":    {sectionAt(t, whole, ".rela.text") + 44, 4, count, `".rela.text" is of no section`},
		"relocations linked before":    {sectionAt(t, whole, ".rela.text") + 8, 8, flagLivepatch, "it was linked before"},
		"relocations of other symbols": {sectionAt(t, whole, ".rela.text") + 40, 4, 1, ""},
	} {
		b := bytes.Clone(whole)
		copy(b[c.at:], le.AppendUint64(nil, c.value)[:c.size])
		_, err := RewriteSymbols(b, targets, "")
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
	for n := range headerSize {
		if _, err := UndefinedSymbols(whole[:n]); err == nil || !strings.Contains(err.Error(), "it is not a module") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got, err := RewriteSymbols(whole, nil, ""); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("nothing to do: %d bytes, %v", len(got), err)
	}
}

// The table of sections begins at a multiple of 8, however long the names before it are.
func TestTableOfSectionsIsAligned(t *testing.T) {
	for n := range 9 {
		name := "hidden" + strings.Repeat("x", n)
		text := strings.ReplaceAll(example, "hidden", name)
		data, err := RewriteSymbols(assembleObject(t, text), map[string]Target{name: {Name: name}, "exported": {Name: "exported"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if at := le.Uint64(data[40:]); at%8 != 0 || int(at)+int(le.Uint16(data[60:]))*sectionSize != len(data) {
			t.Errorf("%s: at %d of %d", name, at, len(data))
		}
	}
}

// The length of a function is the distance of two labels of one section.
func TestDistanceOfLabels(t *testing.T) {
	data := assembleObject(t, example+"\t.globl other, twin\nother:\ntwin:\n")
	if n, err := SymbolDistance(data, "begin", "end"); err != nil || n != 23 {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, c := range [][2]string{{"end", "begin"}, {"begin", "none"}, {"none", "end"}, {"begin", "other"}, {"other", "twin"}, {"begin", "begin"}} {
		want := fmt.Sprintf("it does not have %s and behind it %s", c[0], c[1])
		if n, err := SymbolDistance(data, c[0], c[1]); n != 0 || err == nil || err.Error() != want {
			t.Errorf("%v: %d, %v", c, n, err)
		}
	}
	if n, err := SymbolDistance(data[:100], "begin", "end"); n != 0 || err == nil {
		t.Errorf("a part of a module: %d, %v", n, err)
	}
	damaged := bytes.Clone(data)
	le.PutUint64(damaged[sectionAt(t, damaged, ".strtab")+32:], 3) // a name is cut off
	if n, err := SymbolDistance(damaged, "begin", "end"); n != 0 || err == nil || !strings.Contains(err.Error(), "a name lies outside of its table") {
		t.Errorf("names that are cut off: %d, %v", n, err)
	}
}

// Names decide the order, then positions.
func TestOrderOfTargets(t *testing.T) {
	for range 20 {
		got := SortTargets(map[string]Target{"1": {Name: "a", Position: 2}, "2": {Name: "b", Position: 1}, "3": {Name: "a", Position: 1}, "4": {Name: "c"}})
		if want := "[{a 1 } {a 2 } {b 1 } {c 0 }]"; fmt.Sprint(got) != want {
			t.Fatalf("%v, want %s", got, want)
		}
	}
}
