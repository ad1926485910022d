// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/asm"
)

// diffFiles makes one patch of all files of a tree that have another text.
func diffFiles(t *testing.T, dir string, files map[string]string) []byte {
	t.Helper()
	var patch []byte
	for name, text := range files {
		diff := exec.Command("diff", "-u", "--label", "a/"+name, "--label", "b/"+name, filepath.Join(dir, name), "-")
		diff.Stdin = strings.NewReader(text)
		out, err := diff.Output()
		var differs *exec.ExitError
		if err != nil && (!errors.As(err, &differs) || differs.ExitCode() != 1) {
			t.Fatal(err)
		}
		patch = append(patch, out...)
	}
	return patch
}

// A tree of three files; each function that stays out of line says who it is.
const (
	saysH = "extern int seen(const char *who, int a);\n"
	oneC  = saysH + "static int count = 1;\nint one(int a) { return seen(\"one\", a) + count++; }\n"
	twoC  = saysH + "int two(int a) { return seen(\"two\", a); }\n"
	threC = saysH + "int three(int a) { return seen(\"three\", a); }\n"
)

// A changed is what Changes finds.
type changed struct {
	work *Work
	list map[string]*asm.Change // by path; none: nothing is taken of it
	says string
}

func changesOf(t *testing.T, before, after map[string]string) (changed, error) {
	t.Helper()
	tree := smallTree(t)
	writeFiles(t, tree.Dir, map[string]string{"mm/one.c": oneC, "mm/two.c": twoC, "mm/three.c": threC,
		objectsFile: "image mm/one.c\nimage mm/two.c\nimage mm/three.c\n"})
	writeFiles(t, tree.Dir, before)
	var says strings.Builder
	c := changed{list: map[string]*asm.Change{}}
	var err error
	if c.work, err = tree.Patch(t.Context(), diffFiles(t, tree.Dir, after)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.work.Close() })
	units, err := c.work.Assemble(t.Context(), &says)
	if err != nil {
		t.Fatal(err)
	}
	says.Reset()
	list, err := c.work.Changes(units, &says)
	c.says = says.String()
	for i, change := range list {
		if change != nil {
			c.list[units[i].Path] = change
		}
	}
	return c, err
}

// expectTaken checks which functions of which files the update takes.
func (c changed) expectTaken(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for path, change := range c.list {
		got[path] = strings.TrimSpace(strings.Join(change.Changed, " ") + " + " + strings.Join(change.New, " "))
	}
	if len(got) != len(want) {
		t.Errorf("taken: %q, want %q", got, want)
	}
	for path, names := range want {
		if got[path] != names {
			t.Errorf("of %s: %q, want %q", path, got[path], names)
		}
	}
}

func TestChangesAcrossFiles(t *testing.T) {
	const goes = "__attribute__((noinline)) int goes(int a) { return seen(\"goes\", a) + 5; }\n"
	for _, c := range []struct {
		name          string
		before, after map[string]string
		want          map[string]string
		says          string
	}{
		{"one function changes", nil, map[string]string{"mm/two.c": strings.Replace(twoC, "return", "return 1 +", 1)}, map[string]string{"mm/two.c": "two +"}, ""},
		{"a new function that another file calls", nil, map[string]string{"mm/one.c": oneC + "int made(int a) { return seen(\"made\", a); }\n",
			"mm/two.c": "extern int made(int);\n" + strings.Replace(twoC, "return", "return made(a) +", 1)},
			map[string]string{"mm/one.c": "+ made", "mm/two.c": "two +"}, ""},
		{"a new function that nobody calls", nil, map[string]string{"mm/one.c": oneC + "int made(int a) { return seen(\"made\", a); }\n"}, nil, ""},
		{"a new function that needs one of a third file", nil, map[string]string{"mm/one.c": "extern int far(int);\n" + oneC + "int made(int a) { return far(a) + seen(\"made\", a); }\n",
			"mm/two.c": "extern int made(int);\n" + strings.Replace(twoC, "return", "return made(a) +", 1), "mm/three.c": threC + "int far(int a) { return seen(\"far\", a); }\n"},
			map[string]string{"mm/one.c": "+ made", "mm/two.c": "two +", "mm/three.c": "+ far"}, ""},
		{"a function moves to another file", map[string]string{"mm/one.c": oneC + goes},
			map[string]string{"mm/one.c": oneC, "mm/two.c": saysH + goes + strings.Replace(twoC, "return", "return goes(a) +", 1)},
			map[string]string{"mm/two.c": "two +"}, ""},
		{"a function changes on its way to another file", map[string]string{"mm/one.c": oneC + goes},
			map[string]string{"mm/one.c": oneC, "mm/two.c": saysH + strings.Replace(goes, "+ 5", "+ 6", 1) + twoC},
			map[string]string{"mm/two.c": "goes +"}, ""},
		{"a function has another name", map[string]string{"mm/two.c": "extern int one(int);\n" + strings.Replace(twoC, "return", "return one(a) +", 1)},
			map[string]string{"mm/one.c": strings.Replace(oneC, "int one(", "int first(", 1), "mm/two.c": "extern int first(int);\n" + strings.Replace(twoC, "return", "return first(a) +", 1)},
			nil, "first is the kernel's one under another name\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := changesOf(t, c.before, c.after)
			if err != nil {
				t.Fatal(err)
			}
			got.expectTaken(t, c.want)
			if got.says != c.says || len(got.work.Idle) != 0 {
				t.Errorf("says %q, idle %q", got.says, got.work.Idle)
			}
		})
	}
}

// What only the start runs is told, and is no part of the update.
func TestChangesOfTheStartAreIdle(t *testing.T) {
	const boot = "__attribute__((noinline, section(\".init.text\"))) int boot(int a) { return seen(\"boot\", a) + 1; }\n"
	c, err := changesOf(t, map[string]string{"mm/one.c": oneC + boot}, map[string]string{"mm/one.c": oneC + strings.Replace(boot, "+ 1", "+ 2", 1)})
	if err != nil {
		t.Fatal(err)
	}
	c.expectTaken(t, nil)
	if !slices.Equal(c.work.Idle, []string{"boot of mm/one.c"}) {
		t.Errorf("idle %q", c.work.Idle)
	}
}

// A refusal that concerns two files has the line of the one that asks for it.
func TestRefusalAcrossFilesHasItsLine(t *testing.T) {
	const made = "int made(int a) { return seen(\"made\", a); }\n"
	for _, c := range []struct {
		name          string
		before, after map[string]string
		want          string
	}{
		{"a function that is freed after the kernel has booted", nil, map[string]string{"mm/one.c": oneC + "__attribute__((section(\".init.text\"))) " + made,
			"mm/two.c": "extern int made(int);\n" + strings.Replace(twoC, "return", "return made(a) +", 1)},
			"mm/one.c:4: made: the new text calls this function, which is freed after the kernel has booted"},
		{"a variable moves to another file", map[string]string{"mm/one.c": oneC + "static int total;\nint sum(void) { return total += 2; }\n"},
			map[string]string{"mm/one.c": oneC, "mm/two.c": saysH + "static int total;\nint two(int a) { return seen(\"two\", a) + (total += 3); }\n"},
			"mm/two.c:2: total: the patch takes this variable here from mm/one.c"},
		{"a variable moves from a file of which no function changes", map[string]string{"mm/one.c": "int total = 3;\n" + oneC, "mm/two.c": "extern int total;\n" + strings.Replace(twoC, "return", "return total +", 1)},
			map[string]string{"mm/one.c": oneC, "mm/two.c": "int total = 3;\n" + strings.Replace(twoC, "return", "return 1 + total +", 1)},
			"mm/two.c:1: total: the patch takes this variable here from mm/one.c"},
		{"a function comes from two files", map[string]string{"mm/one.c": oneC + made, "mm/three.c": threC + made},
			map[string]string{"mm/one.c": oneC, "mm/three.c": threC, "mm/two.c": saysH + made + twoC}, "mm/two.c:2: made: the patch takes this function here from several files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := changesOf(t, c.before, c.after)
			var r *asm.Refusal
			if !errors.As(err, &r) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Without the assembly of a file nothing is compared.
func TestChangesNeedTheAssembly(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a.s": "\t.text\n", "bad.s": "\t.popsection\n"})
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, u := range map[string]Unit{
		"no text before": {"mm/one.c", path("none.s"), path("a.s"), ""}, "no text after": {"mm/one.c", path("a.s"), path("none.s"), ""},
		"damaged before": {"mm/one.c", path("bad.s"), path("a.s"), ""}, "damaged after": {"mm/one.c", path("a.s"), path("bad.s"), ""},
	} {
		for _, files := range [][]string{nil, {"mm/one.c"}} {
			list, err := (&Work{tree: smallTree(t), Files: files}).Changes([]Unit{u}, &strings.Builder{})
			if err == nil || list != nil || strings.HasPrefix(name, "no ") != errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s, patch of %v: %v, %v", name, files, list, err)
			}
		}
	}
}
