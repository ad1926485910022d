// SPDX-License-Identifier: MIT

package link

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
)

// assembleObject assembles a stand-in for a module.
func assembleObject(t testing.TB, text string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.o")
	as := exec.Command("gcc", "-m64", "-c", "-x", "assembler", "-o", path, "-")
	as.Stdin = bytes.NewBufferString(text)
	if says, err := as.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, says)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const example = `	.text
	.globl begin, end
begin:
	call exported
	call hidden
	movq hidden_too.3(%rip), %rax
	call hidden
	ret
end:
	.data
	.quad exported
	.quad hidden
	.section .alone,"a"
	.quad hidden
	.section .debug_x,""
	.quad hidden
`

var targets = map[string]Target{"hidden": {"hidden", 0}, "hidden_too.3": {"hidden_too.5", 2}, "unused": {"unused", 0}}

func rewriteObject(t *testing.T) *elf.File {
	t.Helper()
	data, err := RewriteSymbols(assembleObject(t, example), targets)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestHiddenSymbolsAreLeftToLivepatch(t *testing.T) {
	f := rewriteObject(t)
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]elf.SectionIndex{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == indexLivepatch {
			got[s.Name] = s.Section
		}
	}
	want := map[string]elf.SectionIndex{"exported": 0, ".klp.sym.vmlinux.hidden,0": indexLivepatch, ".klp.sym.vmlinux.hidden_too.5,2": indexLivepatch}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnlyTheirRelocationsMove(t *testing.T) {
	f := rewriteObject(t)
	for name, want := range map[string]uint64{
		".rela.text": 1, ".rela.data": 1, ".rela.alone": 0, ".rela.debug_x": 1,
		".klp.rela.vmlinux..text": 3, ".klp.rela.vmlinux..data": 1, ".klp.rela.vmlinux..alone": 1,
	} {
		s := f.Section(name)
		if s == nil || s.Size != want*relocSize {
			t.Errorf("%s: %+v, want %d relocations", name, s, want)
			continue
		}
		if name[1] == 'k' {
			of := f.Sections[s.Info]
			if s.Flags != flagAlloc|flagInfoLink|flagLivepatch || s.Type != elf.SHT_RELA || f.Sections[s.Link].Type != elf.SHT_SYMTAB ||
				name != ".klp.rela.vmlinux."+of.Name {
				t.Errorf("%s has header %+v", name, s.SectionHeader)
			}
		}
	}
	if f.Section(".klp.rela.vmlinux..debug_x") != nil {
		t.Error("relocations of what is not loaded were given to livepatch")
	}
}

func TestRelocationsKeepPlaceAndSymbol(t *testing.T) {
	f := rewriteObject(t)
	data, err := f.Section(".klp.rela.vmlinux..text").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		at   uint64
		name string
	}{{6, ".klp.sym.vmlinux.hidden,0"}, {13, ".klp.sym.vmlinux.hidden_too.5,2"}, {18, ".klp.sym.vmlinux.hidden,0"}} {
		r := data[i*relocSize:]
		if at, name := le.Uint64(r), symbols[le.Uint32(r[12:])-1].Name; at != want.at || name != want.name {
			t.Errorf("relocation %d is %s at %d, want %s at %d", i, name, at, want.name, want.at)
		}
	}
}

func TestModuleWithoutHiddenSymbolsStays(t *testing.T) {
	data := assembleObject(t, example)
	got, err := RewriteSymbols(data, map[string]Target{"other": {"other", 0}})
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("it changed, %v", err)
	}
}

func TestUndefinedAndLength(t *testing.T) {
	data := assembleObject(t, example)
	got, err := UndefinedSymbols(data)
	if want := []string{"exported", "hidden", "hidden_too.3"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if n, err := SymbolDistance(data, "begin", "end"); err != nil || n != 23 {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, names := range [][2]string{{"end", "begin"}, {"begin", "absent"}, {"begin", "exported"}} {
		if _, err := SymbolDistance(data, names[0], names[1]); err == nil {
			t.Errorf("from %s to %s is a length", names[0], names[1])
		}
	}
}

func TestLinkingTwiceIsRefused(t *testing.T) {
	data, err := RewriteSymbols(assembleObject(t, example), map[string]Target{"hidden": {"hidden", 0}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RewriteSymbols(data, map[string]Target{"exported": {"exported", 0}}); err == nil {
		t.Error("taken")
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add(assembleObject(f, example))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := RewriteSymbols(data, targets)
		if err != nil {
			return
		}
		if _, err := UndefinedSymbols(out); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
