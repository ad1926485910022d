// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
)

// smallMake stands for the kernel's: it compiles a file, and derives a header
// from another as the kernel does with the layout of its structures. Like the kernel's it
// keeps the command beside what it compiled. The file made-by-make has a line for each.
const smallMake = `
VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 9
%.s: %.c prepare
	$(CC) -S -O2 -Iinclude -fno-pic -fno-asynchronous-unwind-tables -fcf-protection=none -pg -mfentry $(KCFLAGS) -o $@ $<
	echo 'cmd_$@ := $(CC) -S -O2 -Iinclude -fno-pic -fno-asynchronous-unwind-tables -fcf-protection=none -pg -mfentry $(KCFLAGS) -o $@ $<' >$(@D)/.$(@F).cmd
	echo $@ $(KCFLAGS) >>made-by-make
prepare:
	cp include/layout.h include/generated/asm-offsets.h
fs/part.o:
	echo '  CC [M]  fs/part.o'; : -D__KBUILD_MODNAME=kmod_part
fs/both.o:
	echo '  CC [M]  fs/both.o'
fs/apart.o:
	echo '  CC [M]  fs/apart.o'; : -D__KBUILD_MODNAME=kmod_apart
vmlinux:
modules: fs/part.o
olddefconfig:
	cp $(CHANGED) .config
.PHONY: prepare vmlinux modules
`

const (
	leafC   = "#include <small.h>\nextern void seen(const char *);\nint leaf(int a)\n{\n\tseen(\"leaf\");\n\treturn STEP(a);\n}\n"
	otherC  = "#include <small.h>\nextern void seen(const char *);\nint other(int a)\n{\n\tseen(\"other\");\n\treturn a;\n}\n"
	smallH  = "#include <layout.h>\n#define STEP(a) ((a) + 1)\n"
	objects = "image mm/leaf.c\nimage mm/other.c\n"
)

func smallTree(t *testing.T) *Tree {
	t.Helper()
	tree := &Tree{Kernel: Kernel{Version: "6.1.9-1"}, Dir: filepath.Join(t.TempDir(), "source", "6.1.9-1"), Compiler: "gcc"}
	for name, text := range map[string]string{"Makefile": smallMake, "mm/leaf.c": leafC, "mm/other.c": otherC, "fs/part.c": "#include <small.h>\n",
		"include/small.h": smallH, "include/layout.h": "#define SIZE 8\n", "include/generated/bounds.h": "\n",
		"include/generated/asm-offsets.h": "#define SIZE 8\n", ".config": "CONFIG_X=y\n", objectsFile: objects} {
		path := filepath.Join(tree.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// Files are compiled as they are, without a patch; what is no part of the image is not.
func TestOriginalsAreCompiled(t *testing.T) {
	tree := smallTree(t)
	w, units, err := tree.Originals(context.Background(), []string{"mm/leaf.c", "mm/other.c"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(units) != 2 || units[0].Path != "mm/leaf.c" || !exists(units[0].Before) || !exists(units[1].Object) || exists(units[0].After) {
		t.Errorf("%+v", units)
	}
	if err := w.Close(); err != nil || exists(w.Dir) {
		t.Errorf("the work stays: %v", err)
	}
	if _, _, err := tree.Originals(context.Background(), []string{"include/small.h"}, io.Discard); err == nil || !strings.Contains(err.Error(), "include/small.h is not a source of the kernel's image") {
		t.Errorf("a header: %v", err)
	}
}

// A source of the image is no file that others include: nothing is said of these.
func TestSourceOfTheImageIsCompiledAlone(t *testing.T) {
	w, err := smallTree(t).Patch(t.Context(), []byte(changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`)))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if !slices.Equal(w.Units, []string{"mm/leaf.c"}) || len(w.Skips) != 0 || w.Module != "" {
		t.Errorf("units %q, skips %v, module %q", w.Units, w.Skips, w.Module)
	}
}

func changeHunk(path, before, old, new string) string {
	line := 1 + strings.Count(before[:strings.Index(before, old)], "\n")
	n := strings.Split(before, "\n")[line-1]
	at := "@@ -" + formatInt(line) + " +" + formatInt(line) + " @@\n"
	return "--- a/" + path + "\n+++ b/" + path + "\n" + at + "-" + n + "\n+" + strings.Replace(n, old, new, 1) + "\n"
}

func formatInt(n int) string { return string(rune('0' + n)) }

func TestPatchIsCompiledBeforeAndAfter(t *testing.T) {
	tree := smallTree(t)
	w, err := tree.Patch(context.Background(), []byte(changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.Units, []string{"mm/leaf.c"}) {
		t.Errorf("units: %v", w.Units)
	}
	units, err := w.Assemble(context.Background(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Change(units[0])
	if err != nil || !slices.Equal(c.Changed, []string{"leaf"}) {
		t.Errorf("%v, %v", c, err)
	}
	if !exists(units[0].Object) {
		t.Error("there is no object of the original")
	}
	if err := w.Close(); err != nil || exists(w.Dir) {
		t.Errorf("the work stays: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(tree.Dir, "mm/leaf.c"))
	if err != nil || string(text) != leafC || exists(filepath.Join(tree.Dir, "mm/leaf.s")) {
		t.Errorf("the tree was written to: %v", err)
	}
}

func TestHeaderAffectsFilesThatIncludeIt(t *testing.T) {
	tree := smallTree(t)
	w, err := tree.Patch(context.Background(), []byte(changeHunk("include/small.h", smallH, "+ 1", "+ 2")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	units, err := w.Assemble(context.Background(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for _, u := range units {
		c, err := w.Change(u)
		if err != nil {
			t.Fatal(err)
		}
		changed = append(changed, c.Changed...)
	}
	if !slices.Equal(changed, []string{"leaf"}) || len(units) != 2 {
		t.Errorf("of %v changed %v", units, changed)
	}
	if len(w.Skips) != 1 || !strings.Contains(w.Skips[0].Why, "modules that include it") {
		t.Errorf("skips: %v", w.Skips)
	}
}

// addLine is a patch of a file with one line.
func addLine(path string) string {
	return "--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1,2 @@\n #include <small.h>\n+int x;\n"
}

func TestPatchOfAModule(t *testing.T) {
	w, err := smallTree(t).Patch(context.Background(), []byte(addLine("fs/part.c")))
	if err != nil || w.Module != "part" || !slices.Equal(w.Units, []string{"fs/part.c"}) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestPatch_refused(t *testing.T) {
	for _, c := range []struct{ name, patch, why string }{
		{"the patch is for another source", changeHunk("mm/leaf.c", strings.Replace(leafC, "seen", "saw", 1), `void saw`, `int saw`), "does not fit the source of 6.1.9-1"},
		{"the file belongs to several modules", addLine("fs/both.c"), "fs/both.c:2: this file is part of several modules"},
		{"the files belong to two modules", addLine("fs/part.c") + addLine("fs/apart.c"), "fs/apart.c:2: this file is part of the module apart, and another one of the patch of part"},
		{"one file is the image's", addLine("fs/part.c") + changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`), "mm/leaf.c:5: this file is part of the kernel's image, and another one of the patch of the module part"},
	} {
		tree := smallTree(t)
		for _, name := range []string{"fs/both.c", "fs/apart.c"} {
			if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte("#include <small.h>\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := tree.Patch(context.Background(), []byte(c.patch))
		var r *asm.Refusal
		if !errors.As(err, &r) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestChangedLayoutIsRefused(t *testing.T) {
	w, err := smallTree(t).Patch(context.Background(), []byte(changeHunk("include/layout.h", "#define SIZE 8\n", "8", "16")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Assemble(context.Background(), io.Discard)
	var r *asm.Refusal
	if !errors.As(err, &r) || !strings.Contains(r.Reason, "laid out") {
		t.Errorf("got %v", err)
	}
}

func TestOwnFilesAreCompiledFirst(t *testing.T) {
	tree := smallTree(t)
	list := "image mm/leaf.c\n"
	for i := range Quick {
		name := "mm/other" + formatInt(i) + ".c"
		if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(strings.Replace(otherC, "other(", "other"+formatInt(i)+"(", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		list += "image " + name + "\n"
	}
	data := leafC + "int limit = 3;\n"
	for name, text := range map[string]string{"mm/leaf.c": data, objectsFile: list} {
		if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var says strings.Builder
	for old, refused := range map[string]bool{"limit = 3": true, `"leaf"`: false} {
		w, err := tree.Patch(context.Background(), []byte(changeHunk("mm/leaf.c", data, old, strings.NewReplacer("3", "4", "leaf", "twig").Replace(old))+
			changeHunk("include/small.h", smallH, "+ 1", "+ 2")))
		if err != nil || len(w.Units) != Quick+1 {
			t.Fatalf("%v, %v", w, err)
		}
		says.Reset()
		_, err = w.Assemble(context.Background(), &says)
		w.Close()
		var r *asm.Refusal
		if errors.As(err, &r) != refused || refused == strings.Contains(says.String(), "mm/other0.c") {
			t.Errorf("%s: %v: %s", old, err, says.String())
		}
	}
}

func TestRefusalHasItsLine(t *testing.T) {
	tree := smallTree(t)
	data := leafC + "int limit = 3;\n"
	if err := os.WriteFile(filepath.Join(tree.Dir, "mm/leaf.c"), []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := tree.Patch(context.Background(), []byte(changeHunk("mm/leaf.c", data, "limit = 3", "limit = 4")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	units, err := w.Assemble(context.Background(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Change(units[0]); err == nil || !strings.HasPrefix(err.Error(), "mm/leaf.c:8: limit: ") {
		t.Errorf("got %v", err)
	}
}

func TestConfigurationMustComeOutTheSame(t *testing.T) {
	for _, c := range []struct{ name, version, from, why string }{
		{"only the text of the compiler's version differs", "6.1.9-1", "CONFIG_A=y\nCONFIG_CC_VERSION_TEXT=\"other\"\n", ""},
		{"an option is set that was not set", "6.1.9-1", "CONFIG_A=y\nCONFIG_B=y\n", "CONFIG_B is not set and would be y"},
		{"the source is of another version", "6.1.90-1", "", "holds the source of 6.1.9"},
	} {
		tree := smallTree(t)
		other := filepath.Join(t.TempDir(), "config")
		for path, text := range map[string]string{other: "CONFIG_A=y\n", filepath.Join(tree.Dir, "changed"): c.from} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		makefile := strings.Replace(smallMake, "$(CHANGED)", "changed", 1)
		if err := os.WriteFile(filepath.Join(tree.Dir, "Makefile"), []byte(makefile), 0o644); err != nil {
			t.Fatal(err)
		}
		tree.Kernel = Kernel{Version: c.version, Config: other, Symvers: other}
		err := tree.configure(context.Background())
		if c.why == "" && err != nil || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCompilerMustBeTheImages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for text, why := range map[string]string{
		"\nCONFIG_CC_VERSION_TEXT=\"gcc-12 (Debian 1.2.3-4) 1.2.3\"\n": "compiled with gcc-12 (Debian 1.2.3-4) 1.2.3, and another compiler makes other code: install that one",
		"\nCONFIG_X=y\n": "does not say which compiler",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := findCompiler(context.Background(), path); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v", err)
		}
	}
	out, err := runOutput(context.Background(), "", nil, "gcc", "--version")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(strings.SplitN(string(out), "\n", 2)[0], " ")
	if err := os.WriteFile(path, []byte("\nCONFIG_CC_VERSION_TEXT=\"x86_64-linux-gnu-gcc-99 "+version+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if cc, err := findCompiler(context.Background(), path); err != nil || cc != "gcc" {
		t.Errorf("got %q, %v", cc, err)
	}
}

// A kernel whose source contains a change needs no update. One that contains a part of it does.
func TestChangeThatIsIncluded(t *testing.T) {
	twig := strings.Replace(leafC, `"leaf"`, `"twig"`, 1)
	patch := changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`) + changeHunk("mm/other.c", otherC, `"other"`, `"else"`)
	tree := smallTree(t)
	var included *IncludedError
	for _, c := range []struct {
		file, text string
		included   bool
	}{
		{"mm/leaf.c", twig, false},
		{"mm/other.c", "/* moved */\n" + strings.Replace(otherC, `"other"`, `"else"`, 1), true},
		{"mm/leaf.c", strings.Replace(twig, `"twig"`, `"branch"`, 1), false},
	} {
		if err := os.WriteFile(filepath.Join(tree.Dir, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := tree.Patch(t.Context(), []byte(patch))
		if err == nil || errors.As(err, &included) != c.included || c.included && !strings.Contains(err.Error(), "included: the source of 6.1.9-1 contains each change") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(tree.Dir, "mm/leaf.c"))
	if err != nil || !strings.Contains(string(text), "branch") {
		t.Errorf("the source was changed: %s, %v", text, err)
	}
}

// Lines that are alike elsewhere in a file are no proof that a kernel contains a change.
func TestAlikeLinesAreNotIncluded(t *testing.T) {
	const (
		head   = "--- a/mm/leaf.c\n+++ b/mm/leaf.c\n@@ -2,3 +2,4 @@"
		change = "\n {\n+\tcheck();\n \twork();\n }\n"
		fixed  = "\n{\n\tcheck();\n\twork();\n}\n"
	)
	tree := smallTree(t)
	for _, c := range []struct {
		what, function, text, want string
	}{
		{"in its function", " void one(void)", "void one(void)" + fixed + "void two(void)" + fixed, "included: "},
		{"below a label, as diff -p sees it", " out:", "void one(void)\nout:" + fixed, "included: "},
		{"below a label, as git sees it", " void one(void)", "void one(void)\nout:" + fixed, "included: "},
		{"a long name", " void one(vo", "void one(void)" + fixed, "included: "},
		{"in another function", " void one(void)", "void one(int changed)" + fixed + "void two(void)" + fixed, `but not in "void one(void)" of mm/leaf.c`},
		{"without a function", "", "void one(void)" + fixed, "included: "},
		{"twice without a function", "", "void one(void)" + fixed + "void two(void)" + fixed, "2 places of mm/leaf.c"},
	} {
		if err := os.WriteFile(filepath.Join(tree.Dir, "mm/leaf.c"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := tree.Patch(t.Context(), []byte(head+c.function+change))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}
