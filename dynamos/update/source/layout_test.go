// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const boxH = `#define ROWS 4
#define CELLS (ROWS * 2)
#define JUMP(a) ((a) + 1)
enum kind { ROUND, KINDS };
struct seat { int a; };
struct box {
	int a;
	short pad;
	struct seat *first;
	unsigned low : 3, high : 5;
	union { long l; char *c; };
	int cells[CELLS];
};
struct chest { struct box inner; int last; };
typedef struct { int kinds[KINDS]; } table;
struct desk { int (*sit)(struct seat *, int); };
`

// shelfH is not seen by all who see boxH.
const shelfH = `#include <box.h>
struct shelf { int rows[ROWS]; struct chest *on; };
`

// compareLayouts compares a header before and after, as a unit sees it.
func compareLayouts(t *testing.T, before, after string) []Layout {
	t.Helper()
	tree := smallTree(t)
	for name, text := range map[string]string{"include/box.h": before,
		"include/shelf.h": shelfH, "mm/other.c": "#include <shelf.h>\nint other(struct shelf *s) { return s->rows[1]; }\n",
		"mm/leaf.c": "#include <box.h>\nint leaf(struct chest *c) { return c->last; }\n",
		"fs/part.c": "#include <box.h>\nint part(struct chest *c) { return c->last; }\n"} {
		if err := os.WriteFile(filepath.Join(tree.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := filepath.Join(t.TempDir(), "box.h")
	if err := os.WriteFile(now, []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
	patch, err := exec.Command("diff", "-u", "--label", "a/include/box.h", "--label", "b/include/box.h", filepath.Join(tree.Dir, "include/box.h"), now).Output()
	if len(patch) == 0 {
		t.Fatalf("nothing changes: %v", err)
	}
	w, err := tree.Patch(context.Background(), patch)
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.Layouts(context.Background(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if user, err := w.OfModules(context.Background(), l); err != nil || (l.File == "include/shelf.h" || l.Name == "struct seat" || l.Name == "struct desk" || l.Name == "table") != (user == "") {
			t.Errorf("%s is used by %q, %v", l.Name, user, err)
		}
	}
	if reasons := w.Reasons(); len(reasons) != len(list) {
		t.Errorf("reasons %v of %v", reasons, list)
	}
	return list
}

func TestLayoutIsComparedAndNotItsText(t *testing.T) {
	const box, chest = "box.h:6 struct box: ", "box.h:14 struct chest: "
	for _, c := range []struct{ name, old, new, want string }{
		{"a member is added and the structure grows", "int a;\n\tshort", "int a, b;\n\tshort", box + "b is new 72 64; " + chest + "inner is of another type 80 72"},
		{"a member is added in padding", "short pad;", "short pad, more;", box + "more is new 64 64"},
		{"a member is removed", "int a;\n\tshort", "\n\tshort", box + "pad moves from byte 4 to 0 64 64"},
		{"two members change places", "int a;\n\tshort pad;", "short pad;\n\tint a;", box + "pad moves from byte 4 to 0 64 64"},
		{"a pointer points to another type", "struct seat *first", "struct box *first", box + "first is of another type 64 64"},
		{"a bit field becomes wider", "low : 3, high : 5", "low : 4, high : 4", box + "low moves from byte 16:0+3 to 16:0+4 64 64"},
		{"a member of an anonymous union makes it larger", "long l; char *c;", "long l; char *c; int d[3];", box + "d is new 72 64; " + chest + "inner is of another type 80 72"},
		{"a macro changes the length of an array", "ROWS 4", "ROWS 6", box + "cells is of another type 80 64; " + chest + "inner is of another type 88 72; shelf.h:2 struct shelf: rows is of another type 32 24"},
		{"an enumerator changes the length of an array", "ROUND, KINDS", "ROUND, FLAT, KINDS", "box.h:15 table: kinds is of another type 8 4"},
		{"an array of length 0 is added at the end", "int last; }", "int last; long after[0]; }", chest + "after is new 72 72"},
		{"a structure that no module uses grows", "seat { int a; }", "seat { long a; }", "box.h:5 struct seat: a is of another type 8 4"},
		{"an operation takes another argument", "seat *, int)", "seat *, long)", "box.h:16 struct desk: sit is of another type 8 8"},
		{"an operation takes one argument more", "seat *, int)", "seat *, int, int)", "box.h:16 struct desk: sit is of another type 8 8"},
		{"an operation returns nothing", "int (*sit)", "void (*sit)", "box.h:16 struct desk: sit is of another type 8 8"},
		{"the arguments of an operation get names", "seat *, int)", "seat *who, int how)", ""},
		{"signed instead of int", "int a;\n\tshort", "signed a;\n\tshort", ""},
		{"a member becomes unsigned", "short pad", "unsigned short pad", ""},
		{"a member is renamed", "short pad", "short gap", ""},
		{"a declaration is split into two lines", "int a;\n\tshort", "int\n\ta; /* first */\n\tshort", ""},
		{"a member of an anonymous union that makes it no larger", "long l; char *c;", "long l; long m; char *c;", ""},
		{"a member moves into an anonymous union of its own", "short pad;", "union { short pad; };", ""},
		{"bit fields are declared one by one", "unsigned low : 3, high : 5", "unsigned low : 3; unsigned high : 5", ""},
		{"a macro that no structure uses", "(a) + 1", "(a) + 2", ""},
		{"a structure is added", "struct seat {", "struct more { int a; };\nstruct seat {", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, l := range compareLayouts(t, boxH, strings.Replace(boxH, c.old, c.new, 1)) {
				got = append(got, fmt.Sprintf("%s:%d %s: %s %d %d", filepath.Base(l.File), l.Line, l.Name, l.What, l.Is, l.Was))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}
