// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

// A small kernel of two files. Names that start with other_ are the second's.
const kernelFile = `
extern int other_call(const char *text, int n);
extern int other_count;
static const int steps[4] = { 1, 2, 4, 8 };
static int limit = 7;
static int calls;
const int table[3] = { 3, 5, 7 };
int start = 11;
static const int hidden[2] __attribute__((used)) = { 2, 9 };
__attribute__((weak)) int soft(int n) { return n; }
__attribute__((noinline)) static int inner(int n)
{
	static int seen = 3;
	seen += n;
	return seen * WIDTH;
}
static inline int gate(int n) { return n > limit; }
int outer(int n)
{
	static int seen;
	calls++;
	seen += n;
	if (gate(n))
		return other_call("too many", steps[n & 3]) + soft(n);
	if (__builtin_expect(n == 5, 0))
		return inner(n) + seen;
	return inner(n + other_count);
}
void tune(int n) { limit = n; }
int last(int n) { return n ? inner(n) : outer(n); }
void never(int n) { for (;;) other_count += n; }
`

const otherFile = `
int other_count = 4;
int other_limit = 7;
int other_key[4];
int soft(int n) { return n * 9; }
static __attribute__((noinline)) int inner(int n) { return n + other_count; }
int other_call(const char *text, int n) { return text[n] + inner(n); }
int other_twin(const char *text, int n) { return text[n + 1] + inner(n); }
`

var flags = []string{"-O2", "-DWIDTH=6", "-fno-pie", "-mcmodel=kernel", "-fno-asynchronous-unwind-tables", "-fcf-protection=none"}

func compileText(t testing.TB, dir, out, text string, args ...string) []byte {
	t.Helper()
	in := filepath.Join(dir, "in.c")
	if strings.HasSuffix(out, ".o") && strings.HasPrefix(text, "\t.file") {
		in = filepath.Join(dir, "in.s")
	}
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	runCommand(t, append([]string{"gcc"}, append(args, "-o", filepath.Join(dir, out), in)...)...)
	data, err := os.ReadFile(filepath.Join(dir, out))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func runCommand(t testing.TB, args ...string) {
	t.Helper()
	if says, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, says)
	}
}

// smallKernel links the two files and gives them an image's table of symbols.
func smallKernel(t testing.TB) *Image { return linkImage(t, otherFile, kernelFile) }

// linkImage links a kernel of two files.
func linkImage(t testing.TB, other, file string, args ...string) *Image {
	t.Helper()
	dir := t.TempDir()
	compileText(t, dir, "other.o", other, append(flags, "-c")...)
	compileText(t, dir, "file.o", file, append(append(slices.Clone(flags), args...), "-c")...)
	out := filepath.Join(dir, "vmlinux")
	runCommand(t, "ld", "-Ttext=0xffffffff81000000", "-e", "tune", "-o", out, filepath.Join(dir, "other.o"), filepath.Join(dir, "file.o"))
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	im := &Image{byName: map[string][]int{}}
	if err := im.readParts(data); err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if kind := elf.ST_TYPE(s.Info); kind != elf.STT_SECTION && kind != elf.STT_FILE {
			im.Symbols = append(im.Symbols, Symbol{Name: s.Name, Type: 'T', Addr: s.Value})
		}
	}
	end := im.parts[0].start + uint64(len(im.parts[0].data))
	im.Symbols = append(im.Symbols, Symbol{Name: "_etext", Type: 'T', Addr: end})
	sort.SliceStable(im.Symbols, func(a, b int) bool { return im.Symbols[a].Addr < im.Symbols[b].Addr })
	for i, s := range im.Symbols {
		im.byName[s.Name] = append(im.byName[s.Name], i)
	}
	return im
}

// rebuildObject compiles a file as the builder does: a section for each
// function, folded.
func rebuildObject(t testing.TB, text string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	args = append(append([]string{}, flags...), args...)
	asm := compileText(t, dir, "out.s", text, append(args, "-S", "-ffunction-sections", "-fdata-sections", "-g0")...)
	return compileText(t, dir, "out.o", string(FoldSections(asm)), "-c")
}

func TestGateAcceptsTheSameFile(t *testing.T) {
	im := smallKernel(t)
	f, err := im.Gate("file.c", rebuildObject(t, kernelFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"outer", "inner", "last"} {
		got := f.Functions[name]
		if got == nil || !got.Returns || got.Size == 0 || len(got.Digest) != 64 {
			t.Errorf("%s is %+v", name, got)
			continue
		}
		if _, ok := im.Position(name, got.Addr); !ok {
			t.Errorf("%s is at %#x, where there is none", name, got.Addr)
		}
	}
	if f.Functions["never"].Returns {
		t.Error("never returns")
	}
	if f.Functions["soft"] != nil || f.Symbols["soft"] != im.uniqueAddr("soft") {
		t.Errorf("the weak soft counts, though the other file has one: %v, %#x", f.Functions["soft"], f.Symbols["soft"])
	}
	if f.Symbols["limit"] != im.uniqueAddr("limit") || f.Symbols["other_count"] != im.uniqueAddr("other_count") {
		t.Errorf("symbols are %v", f.Symbols)
	}
}

// Both files have a static `inner`, and the file two variables `seen`.
func TestGateDistinguishesSymbolsOfOneName(t *testing.T) {
	im := smallKernel(t)
	f, err := im.Gate("file.c", rebuildObject(t, kernelFile))
	if err != nil {
		t.Fatal(err)
	}
	both := im.Named("inner")
	if len(both) != 2 {
		t.Fatalf("inner is there %d times", len(both))
	}
	if p, ok := im.Position("inner", f.Functions["inner"].Addr); p != 2 || !ok {
		t.Errorf("the second file's inner has position %d, %v", p, ok)
	}
	var seen []uint64
	for name, addr := range f.Symbols {
		if strings.HasPrefix(name, "seen.") {
			if _, ok := im.Position(name, addr); !ok {
				t.Errorf("%s is not at %#x", name, addr)
			}
			seen = append(seen, addr)
		}
	}
	if len(seen) != 2 || seen[0] == seen[1] {
		t.Errorf("the two seen are at %#x", seen)
	}
}

func TestGateRefusesWhatTheKernelWasNotMadeOf(t *testing.T) {
	im := smallKernel(t)
	for _, c := range []struct {
		name, from, to string
		args           []string
		want           string
	}{
		{name: "another level of optimisation", args: []string{"-O1"}, want: "file.c: "},
		{name: "another value of a configuration macro", args: []string{"-UWIDTH", "-DWIDTH=12"}, want: "inner"},
		{name: "another constant in an instruction", from: "n == 5", to: "n == 6", want: "outer+"},
		{name: "another string literal", from: "too many", to: "too late", want: "another text"},
		{name: "another constant in a table", from: "1, 2, 4, 8", to: "1, 2, 4, 9", want: "steps+"},
		{name: "another initial value of a variable", from: "limit = 7", to: "limit = 8", want: "limit"},
		{name: "another constant in a table that no function of the file uses", from: "{ 3, 5, 7 }", to: "{ 3, 5, 8 }", want: "table+"},
		{name: "another initial value of a variable that no function of the file uses", from: "start = 11", to: "start = 12", want: "start"},
		{name: "another constant in a static table that nothing refers to", from: "{ 2, 9 }", to: "{ 2, 8 }", want: "hidden+"},
		{name: "another initial value of a static local variable", from: "seen = 3", to: "seen = 4", want: "seen"},
		{name: "a static local variable is added before another", from: "	static int seen;\n", to: "	static int more;\n	static int seen;\n	more += n;\n", want: "outer"},
		{name: "code writes another variable", from: "	calls++;", to: "	limit++;", want: "outer+"},
		{name: "code calls another function", from: "other_call(\"too", to: "other_twin(\"too", want: "other_"},
		{name: "an inlined function without its condition", from: "return n > limit;", to: "return 1;", want: "outer+"},
		{name: "two functions change places", from: "int last(int n) { return n ? inner(n) : outer(n); }\nvoid never(int n) { for (;;) other_count += n; }",
			to: "void never(int n) { for (;;) other_count += n; }\nint last(int n) { return n ? inner(n) : outer(n); }", want: "last+"},
		{name: "a function is removed", from: "int last(int n) { return n ? inner(n) : outer(n); }", to: "", want: "no place"},
		{name: "a function is added", from: "int last(", to: "int more(int n) { return n + 1; }\nint last(", want: "more: the image has no such"},
		{name: "a function is renamed", from: "int last(", to: "int first(", want: "first: the image has no such"},
	} {
		text := strings.Replace(kernelFile, c.from, c.to, 1)
		if strings.Contains(text, "other_twin(") {
			text = "extern int other_twin(const char *text, int n);\n" + text
		}
		if c.from != "" && text == kernelFile {
			t.Errorf("%s: the file is still the same", c.name)
			continue
		}
		_, err := im.Gate("file.c", rebuildObject(t, text, c.args...))
		if err == nil {
			t.Errorf("%s: taken", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: refused by %q, want one that says %q", c.name, err, c.want)
		} else {
			t.Logf("%s: %v", c.name, err)
		}
	}
}

func TestFoldJoinsSectionsOfFunctionsOnly(t *testing.T) {
	text := "\t.section\t.text.f,\"ax\",@progbits\n\t.section\t.text.unlikely.f,\"ax\",@progbits\n\t.section\t.text.f\n" +
		"\t.section\t.text.startup.main,\"ax\",@progbits\n\t.section\t.init.text,\"ax\",@progbits\n\t.section\t.data.x,\"aw\"\n\t.section\t.text.unlikely,\"ax\",@progbits\n"
	want := "\t.section\t.text,\"ax\",@progbits\n\t.section\t.text.unlikely,\"ax\",@progbits\n\t.section\t.text\n" +
		"\t.section\t.text.startup,\"ax\",@progbits\n\t.section\t.init.text,\"ax\",@progbits\n\t.section\t.data.x,\"aw\"\n\t.section\t.text.unlikely,\"ax\",@progbits\n"
	if got := string(FoldSections([]byte(text))); got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzGate(f *testing.F) {
	im := smallKernel(f)
	f.Add(rebuildObject(f, kernelFile))
	f.Fuzz(func(t *testing.T, object []byte) { im.Gate("x.c", object) })
}
