// SPDX-License-Identifier: MIT

package link

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
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

var targets = map[string]Target{"hidden": {Name: "hidden"}, "hidden_too.3": {Name: "hidden_too.5", Position: 2}, "unused": {Name: "unused"}}

func rewriteObject(t *testing.T) *elf.File {
	t.Helper()
	data, err := RewriteSymbols(assembleObject(t, example), targets, "")
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
	got, err := RewriteSymbols(data, map[string]Target{"other": {Name: "other"}}, "")
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
	data, err := RewriteSymbols(assembleObject(t, example), map[string]Target{"hidden": {Name: "hidden"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RewriteSymbols(data, map[string]Target{"exported": {Name: "exported"}}, ""); err == nil {
		t.Error("taken")
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add(assembleObject(f, example))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := RewriteSymbols(data, targets, "")
		if err != nil {
			return
		}
		if _, err := UndefinedSymbols(out); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

// What a module has is written by livepatch when that one is there; a table that the kernel
// reads before cannot wait.
func TestSymbolsOfAModule(t *testing.T) {
	of := map[string]Target{"hidden": {Name: "hidden", Module: "dummy"}, "base": {Name: "base", Module: "needed"}, "hidden_too.3": {Name: "hidden_too.5", Position: 2}}
	const text = "\t.text\n\tcall hidden\n\tcall base\n\tcall hidden_too.3\n"
	data, err := RewriteSymbols(assembleObject(t, text), of, "dummy")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]uint64{".klp.rela.dummy..text": 48, ".klp.rela.vmlinux..text": 24} {
		if s := f.Section(name); s == nil || s.Size != size {
			t.Errorf("%s: %+v", name, s)
		}
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".klp.sym.dummy.hidden,0", ".klp.sym.needed.base,0", ".klp.sym.vmlinux.hidden_too.5,2"} {
		if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == want }) {
			t.Errorf("no %s in %+v", want, symbols)
		}
	}
	_, err = RewriteSymbols(assembleObject(t, text+"\t.section __jump_table,\"aw\"\n\t.quad hidden\n"), of, "dummy")
	if err == nil || !strings.Contains(err.Error(), "its __jump_table names something of the module dummy") {
		t.Errorf("a static key of the module: %v", err)
	}
}
