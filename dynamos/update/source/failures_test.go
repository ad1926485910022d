// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/dynamos/update/asm"
)

// A file that decides how a source is prepared and that is not there ends it at once.
func TestSourceNeedsTheFilesOfItsKernel(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"config": "\nCONFIG_CC_VERSION_TEXT=\"gcc 1\"\n"})
	have, none := filepath.Join(dir, "config"), filepath.Join(dir, "none")
	for name, k := range map[string]Kernel{"no configuration": {Version: "6.1.9-1", Config: none, Symvers: have}, "no list of symbols": {Version: "6.1.9-1", Config: have, Symvers: none}} {
		var missing *os.PathError
		if tree, err := PrepareTree(t.Context(), filepath.Join(dir, "cache"), k, io.Discard); tree != nil || !errors.As(err, &missing) || missing.Path != none {
			t.Errorf("%s: %+v, %v", name, tree, err)
		}
	}
	k := Kernel{Version: "6.1.9-1", Config: have, Symvers: have}
	first, err := k.digestInputs()
	if err != nil || len(first) != 65 {
		t.Fatalf("%q, %v", first, err)
	}
	for name, other := range map[string]Kernel{"another version": {Version: "6.1.9-2", Config: have, Symvers: have}, "the same": {"6.1.9-1", have, have, have, "6.1.0"}} {
		if got, err := other.digestInputs(); err != nil || (got == first) != (name == "the same") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	writeFiles(t, dir, map[string]string{"symvers": "\nCONFIG_CC_VERSION_TEXT=\"gcc 2\"\n"})
	k.Symvers = filepath.Join(dir, "symvers")
	if got, err := k.digestInputs(); err != nil || got == first {
		t.Errorf("another list of symbols: %q, %v", got, err)
	}
}

// A prepared tree with the digest of its inputs is taken without any work.
func TestPreparedSourceIsTaken(t *testing.T) {
	dir := t.TempDir()
	out, err := runOutput(t.Context(), "", nil, "gcc", "--version")
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(strings.SplitN(string(out), "\n", 2)[0], " ")
	writeFiles(t, dir, map[string]string{"config": "\nCONFIG_CC_VERSION_TEXT=\"gcc " + version + "\"\n"})
	k := Kernel{Version: "6.1.9-1", Config: filepath.Join(dir, "config"), Symvers: filepath.Join(dir, "config")}
	digest, err := k.digestInputs()
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{"source/6.1.9-1/" + readyFile: digest})
	var says strings.Builder
	tree, err := PrepareTree(t.Context(), dir, k, &says)
	if err != nil || tree.Dir != filepath.Join(dir, "source/6.1.9-1") || tree.Compiler != "gcc" || tree.Kernel != k || says.Len() != 0 {
		t.Errorf("%+v, %v, says %q", tree, err, says.String())
	}
	for text, want := range map[string]bool{digest: true, digest[1:]: false, "": false} {
		writeFiles(t, dir, map[string]string{"source/6.1.9-1/" + readyFile: text})
		if got := tree.isReady(digest); got != want {
			t.Errorf("%q is ready: %v", text, got)
		}
	}
}

// A tree is prepared in the folder where it stays, so that make finds its tools' paths
// unchanged; it is ready only after that.
func TestTreeIsPreparedWhereItStays(t *testing.T) {
	tree := &Tree{Dir: filepath.Join(t.TempDir(), "stays"), Compiler: "gcc"}
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("mm/f%d.c", i)] = ""
	}
	for make, want := range map[string]string{"\tpwd >where": "digest", "\tpwd >where; false": ""} {
		from := filepath.Join(t.TempDir(), "part")
		files["Makefile"] = "modules_prepare:\n" + make + "\nvmlinux:\n"
		for i := range 1000 {
			files["Makefile"] += fmt.Sprintf("\techo '  CC      mm/f%d.o'\n", i)
		}
		writeFiles(t, from, files)
		writeFiles(t, tree.Dir, map[string]string{"old": "", readyFile: "old"})
		err := tree.settle(t.Context(), from, "digest")
		where, _ := os.ReadFile(filepath.Join(tree.Dir, "where"))
		ready, _ := os.ReadFile(filepath.Join(tree.Dir, readyFile))
		if string(where) != tree.Dir+"\n" || string(ready) != want || (err == nil) != (want != "") || exists(from) || exists(filepath.Join(tree.Dir, "old")) {
			t.Errorf("%q: prepared in %q, ready is %q: %v", make, where, ready, err)
		}
	}
}

// The copy of a source calls itself as the image does, or the work ends.
func TestReleaseOfACopy(t *testing.T) {
	release := func(k Kernel, spoil string) (string, string, error) {
		tree := &Tree{Kernel: k, Dir: t.TempDir()}
		writeFiles(t, tree.Dir, map[string]string{"include/generated/utsrelease.h": "old", "include/config/kernel.release": "old"})
		if spoil != "" {
			if err := os.RemoveAll(filepath.Join(tree.Dir, spoil)); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(spoil, ".h") || strings.HasSuffix(spoil, ".release") { // a folder that cannot be removed
				writeFiles(t, tree.Dir, map[string]string{spoil + "/x": ""})
			}
		}
		err := tree.setRelease()
		header, _ := os.ReadFile(filepath.Join(tree.Dir, "include/generated/utsrelease.h"))
		config, _ := os.ReadFile(filepath.Join(tree.Dir, "include/config/kernel.release"))
		return string(header), string(config), err
	}
	if header, config, err := release(Kernel{Release: "6.1.0-9-amd64"}, ""); header != "#define UTS_RELEASE \"6.1.0-9-amd64\"\n" || config != "6.1.0-9-amd64\n" || err != nil {
		t.Errorf("%q, %q, %v", header, config, err)
	}
	if header, config, err := release(Kernel{}, ""); header != "old" || config != "old" || err != nil {
		t.Errorf("a kernel without a release: %q, %q, %v", header, config, err)
	}
	for _, spoil := range []string{"include/generated/utsrelease.h", "include/config/kernel.release", "include/generated", "include/config"} {
		if _, _, err := release(Kernel{Release: "6.1.0-9-amd64"}, spoil); err == nil {
			t.Errorf("%s cannot be written, and nobody says so", spoil)
		}
	}
}

// A declaration names its file by a number of the unit's list.
func TestFileOfADeclaration(t *testing.T) {
	files := []*dwarf.LineFile{{Name: "/src/mm/leaf.c"}, {Name: "/src/mm/../include/box.h"}, nil, {Name: "/usr/include/x.h"}}
	for n, want := range map[int64]string{-1: "", 0: "", 1: "include/box.h", 2: "", 3: "/usr/include/x.h", 4: "", 100: ""} {
		s := &shape{}
		s.readDeclaration(&dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrDeclFile, Val: n}, {Attr: dwarf.AttrDeclLine, Val: int64(7)}}}, files, "/src/")
		if s.file != want || s.line != 7 {
			t.Errorf("file %d: %q, line %d, want %q", n, s.file, s.line, want)
		}
	}
}

// A source without what every build has is refused before anything is compiled.
func TestSourceThatIsNotWhole(t *testing.T) {
	tree := smallTree(t)
	if err := tree.listObjects(t.Context()); err == nil || !strings.Contains(err.Error(), "make would compile only 0 files") {
		t.Errorf("%v", err)
	}
	makefile := strings.Replace(smallMake, "echo '  CC [M]  fs/part.o'", "echo '  CC      fs/part.o'", 1)
	writeFiles(t, tree.Dir, map[string]string{"Makefile": makefile})
	if list, err := tree.moduleSources(t.Context()); err == nil || !strings.Contains(err.Error(), "would compile no modules") {
		t.Errorf("%v, %v", list, err)
	}
	if exists(filepath.Join(tree.Dir, modulesFile)) {
		t.Error("the list of nothing is kept")
	}
	if _, module, err := tree.moduleOf(t.Context(), "fs/part.c"); module || err != nil {
		t.Errorf("a file of the image is a module's: %v", err)
	}
	for _, name := range []string{objectsFile, "include/generated/bounds.h", "include/generated/asm-offsets.h"} {
		tree := smallTree(t)
		patch := []byte(changeHunk("mm/leaf.c", leafC, `"leaf"`, `"twig"`))
		if err := os.Remove(filepath.Join(tree.Dir, name)); err != nil {
			t.Fatal(err)
		}
		w, err := tree.Patch(t.Context(), patch)
		if err == nil {
			_, err = w.Assemble(t.Context(), io.Discard)
			w.Close()
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// The list of the modules' sources is made once and read from then on.
func TestSourcesOfModulesAreListedOnce(t *testing.T) {
	tree := smallTree(t)
	for range 2 {
		list, err := tree.moduleSources(t.Context())
		if err != nil || len(list) != 1 || !list["fs/part.c"] {
			t.Fatalf("%v, %v", list, err)
		}
		writeFiles(t, tree.Dir, map[string]string{"Makefile": "modules:\n"})
	}
	if name, module, err := smallTree(t).moduleOf(t.Context(), "fs/part.c"); !module || name != "part" || err != nil {
		t.Errorf("a module's file is none: %v", err)
	}
	if _, module, err := tree.moduleOf(t.Context(), "fs/part.h"); module || err != nil {
		t.Errorf("a header is a module's: %v", err)
	}
}

// A source is the image's, a module's, or not compiled at all.
func TestKindOfASource(t *testing.T) {
	tree := smallTree(t)
	for path, want := range map[string]string{"mm/leaf.c": "image", "fs/part.c": "module", "fs/none.c": "nothing", "include/small.h": "nothing"} {
		if kind, err := tree.KindOf(t.Context(), path); kind != want || err != nil {
			t.Errorf("%s is %q, %v", path, kind, err)
		}
	}
	if err := os.Remove(filepath.Join(tree.Dir, objectsFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.KindOf(t.Context(), "mm/leaf.c"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the image's list: %v", err)
	}
}

// What works left that were killed goes after a day, and nothing else.
func TestOldWorksAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"work-1": 25 * time.Hour, "work-2": 23 * time.Hour, "worked": 25 * time.Hour} {
		writeFiles(t, dir, map[string]string{name + "/x": ""})
		when := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(dir)
	for name, want := range map[string]bool{"work-1": false, "work-2": true, "worked": true} {
		if exists(filepath.Join(dir, name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
}

// So many files as may be compiled, and one more.
func TestPatchOfTooManyFiles(t *testing.T) {
	tree := smallTree(t)
	for n, refused := range map[int]bool{Most: false, Most + 1: true} {
		w := &Work{tree: tree, Units: make([]string, n)}
		err := os.RemoveAll(filepath.Join(tree.Dir, ".config")) // ends what is not refused
		if err == nil {
			_, err = w.Assemble(t.Context(), io.Discard)
		}
		w.Close()
		var r *asm.Refusal
		if errors.As(err, &r) != refused || refused && !strings.Contains(err.Error(), "401 files of the image include") {
			t.Errorf("%d files: %v", n, err)
		}
	}
	if units, err := (&Work{}).Assemble(t.Context(), io.Discard); units != nil || err != nil {
		t.Errorf("no files: %v, %v", units, err)
	}
	for n, want := range map[int]time.Duration{0: 10 * time.Second, 1: 12500 * time.Millisecond, 8: 30 * time.Second} {
		if got := (&Work{Units: make([]string, n)}).Estimate(); got != want {
			t.Errorf("%d files take %v, not %v", n, got, want)
		}
	}
}

// A copy has links to what came with the source, files of its own of what make wrote, and
// only the drivers' sources of the folders that are compiled. What another process's
// make writes and removes meanwhile is not in it.
func TestCopyOfATree(t *testing.T) {
	tree := smallTree(t)
	writeFiles(t, tree.Dir, map[string]string{"drivers/a/x.c": "x", "drivers/a/x.h": "h", "drivers/b/y.c": "y", "sound/z.c": "z", "driver.c": "d", "made": "m", "empty": "",
		".tmp_15139/tmp": "", "mm/.tmp_7.o": "o", ".skep-modules.15139": "drivers/a/x.c\n"})
	if err := os.Symlink("mm", filepath.Join(tree.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	ready := time.Now().Add(-time.Hour)
	old := ready.Add(-time.Hour)
	for _, name := range []string{"drivers/a/x.c", "drivers/a/x.h", "drivers/b/y.c", "sound/z.c", "driver.c"} {
		if err := os.Chtimes(filepath.Join(tree.Dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	for name, when := range map[string]time.Time{".config": ready, "mm/leaf.c": ready} {
		if err := os.Chtimes(filepath.Join(tree.Dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(tree.Dir, "made"), 0o750); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := tree.linkTree(t.Context(), to, []string{"drivers/b/other.c"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"drivers/a/x.c": "none", "drivers/a/x.h": "link", "drivers/b/y.c": "link", "sound/z.c": "none", "driver.c": "link",
		"made": "own", "empty": "link", "mm/leaf.c": "own", ".tmp_15139/tmp": "none", "mm/.tmp_7.o": "none", ".skep-modules.15139": "none"} {
		from, err := os.Stat(filepath.Join(tree.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if is, err := os.Stat(filepath.Join(to, name)); err == nil {
			got = "own"
			if os.SameFile(from, is) {
				got = "link"
			} else if !is.ModTime().Equal(from.ModTime()) || is.Mode() != from.Mode() || is.Size() != from.Size() {
				t.Errorf("%s is %v, not %v", name, is, from)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); err != nil || target != "mm" {
		t.Errorf("the link leads to %q: %v", target, err)
	}
}

// A header that cannot be read ends the comparison of layouts.
func TestLayoutsNeedTheirHeaders(t *testing.T) {
	tree := smallTree(t)
	writeFiles(t, tree.Dir, map[string]string{"include/dir.h/x": "", "mm/leaf.c": "#include <dir.h>\n" + leafC})
	w, err := tree.Patch(t.Context(), []byte(changeHunk("include/small.h", smallH, "+ 1", "+ 2")))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if list, err := w.Layouts(t.Context(), io.Discard); list != nil || !errors.Is(err, syscall.EISDIR) {
		t.Errorf("%v, %v", list, err)
	}
}
