// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"skep/dynamos/update/source"
)

func makeTree(t *testing.T, files map[string]string) *source.Tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &source.Tree{Dir: dir}
}

func TestCaseIncludesDefinitionsOfItsCalls(t *testing.T) {
	old := map[string]string{"fs/a.c": "\n", "fs/b.c": "int other(void);\n"}
	new := map[string]string{"fs/a.c": "int x = 1;\n", "fs/b.c": "int other(void);\n\nint made(int a)\n{\n\treturn a;\n}\n"}
	for _, f := range allFolders {
		old[f+"/same.c"], new[f+"/same.c"] = "\n", "\n"
	}
	cases := &trees{makeTree(t, old), makeTree(t, new)}
	more, err := cases.findMissing([]string{"fs/a.c"}, errors.New("for Linux: the new text uses made, which the kernel does not have"))
	if err != nil || !slices.Equal(more, []string{"fs/b.c"}) {
		t.Errorf("%v, %v", more, err)
	}
	for _, err := range []error{nil, errors.New("another reason"), errors.New("the new text uses nothing, which the kernel does not have")} {
		if more, failed := cases.findMissing([]string{"fs/a.c"}, err); failed != nil || len(more) > 0 {
			t.Errorf("%v: %v, %v", err, more, failed)
		}
	}
}

func TestCaseIncludesWhatItNeedsToCompile(t *testing.T) {
	old := map[string]string{
		"mm/a.c": "#include <linux/list.h>\n#include <linux/other.h>\n", "mm/b.c": "void start(void) {}\n", "mm/c.c": "\n",
		"include/linux/list.h":  "struct entry {\n\tint first;\n};\nvoid start(void);\n",
		"include/linux/other.h": "struct room {\n\tint size;\n};\n",
	}
	new := map[string]string{
		"mm/a.c": old["mm/a.c"] + "int x;\n", "mm/b.c": "int start(void) { return 0; }\n", "mm/c.c": "\n",
		"include/linux/list.h":  "struct entry {\n\tint first;\n\tint rcu;\n};\nint start(void);\n",
		"include/linux/other.h": "struct room {\n\tint size;\n\tint rcu;\n};\n",
	}
	cases := &trees{makeTree(t, old), makeTree(t, new)}
	for _, c := range []struct {
		what, says string
		more       []string
	}{
		{"a member", "include/linux/same.h:3:1: error: 'struct entry' has no member named 'rcu'\n 3 | x\n", []string{"include/linux/list.h"}},
		{"another result", "mm/a.c:9:2: error: void value not ignored as it ought to be\n  9 |  if (start())\n    |      ^~~~~\n", []string{"include/linux/list.h"}},
		{"a file that changed too", "mm/b.c:1:5: error: conflicting types for 'start'\n", []string{"mm/b.c"}},
		{"a file that did not", "mm/c.c:1:5: error: 'nothing' undeclared\n", nil},
	} {
		if more := cases.findHeaders([]string{"mm/a.c"}, c.says); !slices.Equal(more, c.more) {
			t.Errorf("%s: %v", c.what, more)
		}
	}
}
