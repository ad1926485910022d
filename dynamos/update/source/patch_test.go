// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
)

const mail = `From: somebody
Subject: two files

---
 mm/a.c | 2 +-

diff --git a/mm/a.c b/mm/a.c
index 1..2 100644
--- a/mm/a.c
+++ b/mm/a.c
@@ -3,4 +3,5 @@ int f(void)
 one
-two
+2
+more
 three
 four
@@ -20 +21,0 @@
-gone
diff --git a/Documentation/x.rst b/Documentation/x.rst
--- a/Documentation/x.rst	2026-01-01
+++ b/Documentation/x.rst	2026-01-02
@@ -1 +1 @@
-x
+y
\ No newline at end of file
` + "-- \n2.39\n"

func TestParsePatch(t *testing.T) {
	parts, err := parsePatch([]byte(mail))
	if err != nil || len(parts) != 2 {
		t.Fatalf("%v, %v", parts, err)
	}
	if p := parts[0]; p.path != "mm/a.c" || !slices.Equal(p.changed, []int{4, 4, 5, 21}) || p.line != 9 || !strings.HasSuffix(string(p.text), "-gone\n") {
		t.Errorf("%+v\n%s", p, p.text)
	}
	code, skips, err := sortParts(parts)
	if err != nil || len(code) != 1 || len(skips) != 1 || skips[0].Path != "Documentation/x.rst" {
		t.Errorf("%v, %v, %v", code, skips, err)
	}
}

func TestFilesThatDoNotMatter(t *testing.T) {
	const version, flags = "--- a/Makefile\n+++ b/Makefile\n-SUBLEVEL = 1\n+SUBLEVEL = 2\n x\n", "--- a/Makefile\n+++ b/Makefile\n+CFLAGS = 1\n"
	for _, c := range []struct{ path, text, want string }{
		{"Documentation/a.c", "", "documentation"},
		{"mm/notes.rst", "", "documentation"},
		{"MAINTAINERS", "", "documentation"},
		{"CREDITS", "", "documentation"},
		{"LICENSES/a.c", "", "documentation"},
		{"mm/MAINTAINERS.c", "", ""},
		{"tools/a.c", "", "not part of the kernel"},
		{"samples/a.c", "", "not part of the kernel"},
		{"scripts/a.c", "", "not part of the kernel"},
		{"debian/a.c", "", "not part of the kernel"},
		{"mm/tools/a.c", "", ""},
		{"arch/arm64/a.c", "", "another architecture"},
		{"arch/x86/a.c", "", ""},
		{"lib/arm64/a.c", "", ""},
		{"Makefile", version, "the version's number"},
		{"Makefile", version + "+PATCHLEVEL = 1\n+VERSION = 1\n+EXTRAVERSION =\n+NAME = x\n", "the version's number"},
		{"Makefile", version + "+CFLAGS = 1\n", ""},
		{"Makefile", flags, ""},
		{"mm/Makefile", version, ""},
		{"Kconfig", "", "options; the image's are taken"},
		{"mm/Kconfig", "", "options; the image's are taken"},
		{"mm/Kconfig.c", "", ""},
	} {
		if got := ignoreReason(part{path: c.path, text: []byte(c.text)}); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}

func TestParsePatch_refused(t *testing.T) {
	for _, c := range []struct{ name, old, new, why string }{
		{"a path that leaves the tree", "b/mm/a.c\n@@", "b/../../etc/x.c\n@@", "not a path of the form"},
		{"an absolute path", "b/mm/a.c\n@@", "b//etc/x.c\n@@", "not a path of the form"},
		{"a file name with characters of the shell", "b/mm/a.c\n@@", "b/mm/$(x).c\n@@", "not the name of a kernel's file"},
		{"the patch renames a file", "b/mm/a.c\n@@", "b/mm/b.c\n@@", "line 9 of the patch renames"},
		{"a damaged hunk header", "@@ -3,4 +3,5 @@", "@@ -3,4 +x,5 @@", "line 11 of the patch is not the head"},
		{"a hunk with fewer lines than its header says", "@@ -1 +1 @@", "@@ -1 +1,9 @@", "more lines than it says"},
		{"a hunk with more lines than its header says", "@@ -3,4 +3,5 @@", "@@ -3,1 +3,5 @@", "more lines than it says"},
	} {
		_, err := parsePatch([]byte(strings.Replace(mail, c.old, c.new, 1)))
		if !isRefusal(err, c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for text, why := range map[string]string{"hello\n": "it is not a patch", "--- a/x/y.c\n+++ b/x/y.c\n": "line 1 of the patch changes nothing",
		"--- a/../y.c\n+++ b/x/y.c\n": "line 1 of the patch: ", "--- a/x/y.c\n+++ b/../y.c\n": "line 2 of the patch: ",
		"--- a/m/a.c\n+++ b/m/a.c\n@@ -1 +1,2 @@\n-x\n+y\n":                                              "inside of the hunk",
		"--- a/m/a.c\n+++ b/m/a.c\n@@ -1 +1 @@\n-x\n+y\n--- a/m/a.c\n+++ b/m/a.c\n@@ -1 +1 @@\n-x\n+y\n": "a second time: make one patch of its commits"} {
		if _, err := parsePatch([]byte(text)); !isRefusal(err, why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// isRefusal reports whether an error is a refusal, which has an exit code of its own.
func isRefusal(err error, why string) bool {
	var r *asm.Refusal
	return errors.As(err, &r) && strings.Contains(r.Reason, why)
}

// A patch that git made with --no-prefix is taken as it is.
func TestPatchWithoutPrefixes(t *testing.T) {
	tree := smallTree(t)
	want := changeHunk("mm/leaf.c", leafC, "seen", "saw")
	plain := strings.NewReplacer("--- a/", "--- ", "+++ b/", "+++ ").Replace(want)
	if plain == want {
		t.Fatal(want)
	}
	if got := string(tree.addPrefixes([]byte(plain))); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := string(tree.addPrefixes([]byte(want))); got != want {
		t.Errorf("one with prefixes became\n%s", got)
	}
	w, err := tree.Patch(t.Context(), []byte(plain))
	if err != nil || !slices.Equal(w.Files, []string{"mm/leaf.c"}) {
		t.Errorf("%+v, %v", w, err)
	}
	added := "--- /dev/null\n+++ mm/leaf.c\n@@ -0,0 +1 @@\n+x\n"
	if got := string(tree.addPrefixes([]byte(added))); got != "--- /dev/null\n+++ b/mm/leaf.c\n@@ -0,0 +1 @@\n+x\n" {
		t.Errorf("an added file became\n%s", got)
	}
	if got := string(tree.addPrefixes([]byte("--- mm/leaf.c\n+++ mm/leaf.c"))); got != "--- a/mm/leaf.c\n+++ b/mm/leaf.c" {
		t.Errorf("one that ends behind its names became\n%s", got)
	}
	outside := "--- ../../etc/passwd\n+++ ../../etc/passwd\n"
	if got := string(tree.addPrefixes([]byte(outside))); got != outside {
		t.Errorf("one outside became\n%s", got)
	}
}

func TestSortParts_refused(t *testing.T) {
	for _, c := range []struct {
		name, why string
		p         part
	}{
		{"mm/Makefile", "decides how others are built", part{}},
		{"arch/x86/entry/entry_64.S", "decides how others", part{}},
		{"Makefile", "decides how others", part{text: []byte("--- a\n+++ b\n@@ -1 +1 @@\n-SUBLEVEL = 1\n+KBUILD_CFLAGS += -O3\n")}},
		{"mm/new.c", "adds this file", part{added: true}},
		{"mm/old.c", "removes this file", part{removed: true}},
	} {
		c.p.path, c.p.changed = c.name, []int{7}
		_, _, err := sortParts([]part{c.p})
		var r *asm.Refusal
		if !errors.As(err, &r) || r.Line != 7 || !strings.Contains(r.Reason, c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, skips, err := sortParts([]part{{path: "Makefile", text: []byte("--- a\n+++ b\n@@ -1 +1 @@\n-SUBLEVEL = 1\n+SUBLEVEL = 2\n")},
		{path: "arch/arm/kernel/head.S"}, {path: "tools/perf/x.c"}})
	if err != nil || len(skips) != 3 {
		t.Errorf("%v, %v", skips, err)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte(mail))
	f.Fuzz(func(t *testing.T, text []byte) {
		parts, err := parsePatch(text)
		if err != nil {
			return
		}
		for _, p := range parts {
			if p.path == "" || p.path[0] == '/' || slices.Contains(strings.Split(p.path, "/"), "..") {
				t.Errorf("path %q passes", p.path)
			}
		}
		again, err := parsePatch(join(parts))
		if err != nil || len(again) != len(parts) {
			t.Errorf("what was read does not read again: %v", err)
		}
	})
}
