// SPDX-License-Identifier: MIT

package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func writeFile(t *testing.T, root, name, text string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func checkMirror(t *testing.T, root, copy string, want ...string) {
	t.Helper()
	if _, err := Tree(root, copy); err != nil {
		t.Fatal(err)
	}
	got, err := filesBelow(copy, ".", func(string) bool { return false })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the copy has %v, want %v: %v", got, want, err)
	}
}

// The copy has the sources and the build folder with their times and modes, and links to
// kernels. Removed files are removed from it, and it shares no other file with the tree.
func TestTree(t *testing.T) {
	root, copy := t.TempDir(), t.TempDir()
	old := writeFile(t, root, "room/a.c", "int a;\n")
	writeFile(t, root, "build/obj/a.o", "object")
	writeFile(t, root, "build/kernel/vmlinuz", "large")
	writeFile(t, root, "build/wine-demo/drive_c/a.dll", "large")
	writeFile(t, root, "build/mutants/tree/room/a.c", "a copy")
	writeFile(t, root, "build/mutants-bee/tree/room/a.c", "a copy")
	if err := os.Symlink("a.c", root+"/room/link.c"); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1600000000, 123456789)
	if err := os.Chtimes(old, when, when); err != nil {
		t.Fatal(err)
	}
	checkMirror(t, root, copy, "build/kernel", "build/obj/a.o", "room/a.c", "room/link.c")
	info, err := os.Stat(copy + "/room/a.c")
	if err != nil || !info.ModTime().Equal(when) || info.Mode().Perm() != 0o755 {
		t.Errorf("the copy is %v: %v", info, err)
	}
	if err := os.WriteFile(copy+"/room/a.c", []byte("mutated"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(old); string(text) != "int a;\n" {
		t.Errorf("the tree's file is %q: %v", text, err)
	}
	if text, err := os.ReadFile(copy + "/build/kernel/vmlinuz"); string(text) != "large" {
		t.Errorf("through the link there is %q: %v", text, err)
	}
	if err := errors.Join(os.Remove(root+"/build/obj/a.o"), os.RemoveAll(root+"/build/kernel")); err != nil {
		t.Fatal(err)
	}
	checkMirror(t, root, copy, "room/a.c", "room/link.c")
	if text, err := os.ReadFile(copy + "/room/a.c"); string(text) != "int a;\n" {
		t.Errorf("the copy's file is %q: %v", text, err)
	}
}

// Results of another tree are not used. A changed document does not make another tree.
func TestDigest(t *testing.T) {
	root := t.TempDir()
	writeFile(t, root, "a.c", "int a;\n")
	writeFile(t, root, "a.md", "text")
	names := []string{"a.c", "a.md"}
	first, err := Digest(root, names)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, root, "a.md", "other text")
	if d, err := Digest(root, names); err != nil || d != first {
		t.Errorf("another document: %s and %s, %v", first, d, err)
	}
	writeFile(t, root, "a.c", "int b;\n")
	if d, err := Digest(root, names); err != nil || d == first {
		t.Errorf("another source: %s and %s, %v", first, d, err)
	}
}
