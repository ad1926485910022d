// SPDX-License-Identifier: MIT

package mutate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plantTree writes a tree with one file and gives its mutations.
func plantTree(t *testing.T, text string) (root string, list []Mutation) {
	t.Helper()
	root = t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f.c"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := Of(root, "f.c")
	if err != nil {
		t.Fatal(err)
	}
	return root, list
}

func equalOf(t *testing.T, text string) ([]Equal, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "equal.tbl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return ReadEqual(path)
}

// An entry excludes its mutation. It stays valid if the line moves, and is an error if the
// line changes or if two places match.
func TestEqual(t *testing.T) {
	const text = "int f(int a)\n{\n\treturn a < 5;\n}\n"
	root, list := plantTree(t, text)
	equal, err := equalOf(t, "# why\n\n"+list[0].Mark+" f.c it shows nowhere\n")
	if err != nil || len(equal) != 1 {
		t.Fatal(equal, err)
	}
	if err := CheckEqual(root, "equal.tbl", equal); err != nil {
		t.Error(err)
	}
	if rest := WithoutEqual(list, equal); len(rest) != len(list)-1 || slices.Contains(rest, list[0]) {
		t.Errorf("of %v %v are left", list, rest)
	}
	root, _ = plantTree(t, "int g;\n\n"+text)
	if err := CheckEqual(root, "equal.tbl", equal); err != nil {
		t.Errorf("after a move: %v", err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(text, "5", "6", 1), "stale"}, {"int g;\n", "stale"}, {text + text, "2 places"},
	} {
		root, _ = plantTree(t, c.text)
		if err := CheckEqual(root, "equal.tbl", equal); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %q: %v", c.text, err)
		}
	}
	if err := CheckEqual(t.TempDir(), "equal.tbl", equal); err == nil {
		t.Error("no error without the file")
	}
}

func TestEqualTable(t *testing.T) {
	for _, bad := range []string{
		"0123456789ab f.c\n", "0123456789a f.c why\n",
		"0123456789ab f.c why\n0123456789ab f.c why\n",
	} {
		if _, err := equalOf(t, bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	if list, err := ReadEqual(filepath.Join(t.TempDir(), "none")); err != nil || list != nil {
		t.Error(list, err)
	}
}
