// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	boxesC = "struct box { int lid, *in; };\nextern int *fill(void);\nint make(struct box *b)\n{\n\treturn 1;\n}\nint look(struct box *b)\n{\n\treturn 2;\n}\n"
	// it sets up what the other function uses
	boxesPatch = "--- a/mm/leaf.c\n+++ b/mm/leaf.c\n@@ -5 +5,2 @@\n-\treturn 1;\n+\tb->in = fill();\n+\treturn 1;\n@@ -9 +10 @@\n-\treturn 2;\n+\treturn *b->in;\n"
)

// What a patch relies on is found in what the kernel's make compiles, with its line.
func TestPatchThatReliesOnState(t *testing.T) {
	tree := smallTree(t)
	if err := os.WriteFile(filepath.Join(tree.Dir, "mm/leaf.c"), []byte(boxesC), 0o644); err != nil {
		t.Fatal(err)
	}
	for patch, want := range map[string]string{boxesPatch: "look relies on struct box.in, which make sets up only with the patch",
		changeHunk("mm/leaf.c", boxesC, "return 2", "return b->lid"): ""} {
		w, err := tree.Patch(t.Context(), []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		units, err := w.Assemble(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := w.Changes(units, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		list, err := w.Hazards(units, changes)
		switch {
		case err != nil:
			t.Fatal(err)
		case want == "" && len(list) != 0:
			t.Errorf("%v", list)
		case want != "" && (len(list) != 1 || !strings.HasPrefix(list[0].String(), want) || list[0].File != "mm/leaf.c" || list[0].Line != 10):
			t.Errorf("%+v, want %s", list, want)
		}
		changes[0].Changed = append(changes[0].Changed, "hidden")
		if _, err := w.Hazards(units, changes); err == nil || !strings.Contains(err.Error(), "hidden: the compiler does not tell") {
			t.Errorf("a function that the compiler does not tell of: %v", err)
		}
	}
}
