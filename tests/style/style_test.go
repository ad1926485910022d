// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	spdxC  = "/* SPDX-License-Identifier: MIT */\n"
	spdxGo = "// SPDX-License-Identifier: MIT\n\n"
	spdxSh = "#!/bin/sh\n# SPDX-License-Identifier: MIT\nset -eu\n"
	spdxMd = "<!-- SPDX-License-Identifier: MIT -->\n"
	spdxK  = "/* SPDX-License-Identifier: GPL-2.0-only */\n"
	table  = "include/skep free include/skep\nabi free include/skep abi\nbee host include/skep abi bee system\nx/kmod kernel system\nx/core host x system\n"
)

// licences is README's table of licences.
const licences = "\n## Licence\n\n| files | licence |\n|---|---|\n| kernel modules: `*/kmod/`, `mk/x.mk` | `GPL-2.0-only` |\n" +
	"| `include/skep/` | `" + contractLicence + "` |\n| everything else | `MIT` |\n"

// good is a tree that follows every rule. Each plant adds or replaces files.
var good = map[string]string{
	"go.mod":                   "// SPDX-License-Identifier: MIT\n\nmodule skep\n\ngo 1.26\n",
	"tests/style/borders.tbl":  "# SPDX-License-Identifier: MIT\n" + table,
	"tests/style/layers.tbl":   "# SPDX-License-Identifier: MIT\ncmd\ninternal/hub\ninternal/engine\n",
	"tests/style/c-layers.tbl": "# SPDX-License-Identifier: MIT\nx/core top\nx/core base list.h\n",
	"include/skep/types.h":     "/* SPDX-License-Identifier: " + contractLicence + " */\ntypedef unsigned long long u64;\n",
	"abi/a.h":                  spdxC + "#ifndef A_H\n#define A_H\n#include <skep/types.h>\nu64 a(u64 v);\n#endif\n",
	"abi/a.c":                  spdxC + "#include \"a.h\"\n\n/* not a long way */\nu64 a(u64 v)\n{\n\treturn v;\n}\n",
	"bee/b.c":                  spdxC + "#include <stdio.h>\n#include \"abi/a.h\"\n",
	"cmd/skep/main.go":         spdxGo + "// Skep is a program.\npackage main\n\nimport _ \"skep/internal/hub\"\n\nfunc main() {}\n",
	"internal/hub/hub.go":      spdxGo + "// Package hub is one.\npackage hub\n",
	"abi/long.c":               spdxC + strings.Repeat("/* a line */\n", 90),
	"abi/README.md":            spdxMd,
	"bee/README.md":            spdxMd,
	"cmd/README.md":            spdxMd,
	"include/README.md":        spdxMd,
	"internal/README.md":       spdxMd + "`hub`\n",
	"tests/README.md":          spdxMd + "`style/`\n",
	"mk/x.sh":                  spdxSh + "echo \"$1\"\n",
	"mk/x.mk":                  "# SPDX-License-Identifier: GPL-2.0-only\n",
	"README.md":                "<!-- SPDX-License-Identifier: MIT -->\n[the rooms](abi/a.h)\n" + licences,
	".clang-format":            "# SPDX-License-Identifier: MIT\nBasedOnStyle: LLVM\nUseTab: Always\nTabWidth: 8\nIndentWidth: 8\nBreakBeforeBraces: Linux\nSortIncludes: false\nAllowShortFunctionsOnASingleLine: None\n",
}

func plantTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	for _, set := range []map[string]string{good, files} {
		for name, text := range set {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			mode := os.FileMode(0o644)
			if strings.HasPrefix(text, "#!") && !strings.Contains(name, "noexec") {
				mode = 0o755
			}
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	tr, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func longC(lines int) string {
	return spdxC + "void f(void)\n{\n" + strings.Repeat("\tf();\n", lines) + "}\n"
}

// makeRing returns a circle of modules: each header's source file includes the next header.
func makeRing(modules int) map[string]string {
	files := map[string]string{}
	for i := range modules {
		files[fmt.Sprintf("abi/r%d.h", i)] = spdxC
		files[fmt.Sprintf("abi/r%d.c", i)] = spdxC + fmt.Sprintf("#include \"r%d.h\"\n#include \"r%d.h\"\n", i, (i+1)%modules)
	}
	return files
}

// plants lists violations of every rule, and a word of the expected message.
var plants = []struct {
	check string
	files map[string]string
	want  string
}{
	{"clang-format", map[string]string{"abi/x.c": spdxC + "int   x;\n"}, "abi/x.c:2"},
	{"c functions have at most 60 lines", map[string]string{"abi/x.c": longC(61)}, "abi/x.c:3: function of 61"},
	{"c borders", map[string]string{"abi/x.c": spdxC + "#include <stdio.h>\n"}, "stdio.h"},
	{"c borders", map[string]string{"abi/x.c": spdxC + "#include \"stdio.h\"\n"}, "stdio.h"},
	{"c borders", map[string]string{"abi/x.c": spdxC + "# include \"../bee/b.c\"\n"}, "bee/b.c"},
	{"c borders", map[string]string{"other/x.c": spdxC}, "no row"},
	{"include circles are small", makeRing(7), "abi/r0: 7 modules"},
	{"c layers", map[string]string{"x/core/top.h": spdxC, "x/core/base.c": spdxC + "#include \"base.h\"\n#include \"top.h\"\n", "x/core/base.h": spdxC}, "base.c:3: includes x/core/top.h"},
	{"c layers", map[string]string{"x/core/list.h": spdxC, "x/core/base.h": spdxC + "#include <x/core/list.h>\n"}, "base.h:2: includes x/core/list.h"},
	{"c layers", map[string]string{"x/core/new.c": spdxC}, "no line in tests/style/c-layers.tbl"},
	{"c layers", map[string]string{"tests/style/c-layers.tbl": "x/core top\nx/core top\n"}, "top stands here twice"},
	{"freestanding code has no long", map[string]string{"abi/x.c": spdxC + "/* long */\nunsigned long x;\n"}, "abi/x.c:3"},
	{"no typedef of structs", map[string]string{"abi/x.h": spdxC + "typedef struct x {\n\tint a;\n} x_t;\n"}, "abi/x.h:2"},
	{"static functions are named", map[string]string{"abi/test/a.c": spdxC + "int main(void)\n{\n\treturn 0;\n}\n\nstatic void fill(void)\n{\n}\n"}, "a.c:7: fill() is one bare word"},
	{"static functions are named", map[string]string{"abi/test/a.h": spdxC + "__attribute__((format(printf, 1, 2), unused)) static int\nsay(const char *format, ...)\n{\n}\n"}, "a.h:3: say() is one bare word"},
	{"functions of kernel modules are named", map[string]string{"x/kmod/a.c": spdxK + "static int find(void)\n{\n\treturn 0;\n}\n"}, "a.c:2: find() is one bare word"},
	{"functions of kernel modules are named", map[string]string{"x/kmod/a.c": spdxK + "static int\npeer_find(int a,\n\t  int b)\n{\n\treturn 0;\n}\n",
		"x/kmod/b.c": spdxK + "static void peer_find(void)\n{\n}\n"}, "b.c:2: peer_find() is the name of another function too: x/kmod/a.c:3"},
	{"kernel modules do not warn", map[string]string{"x/kmod/a.c": spdxK + "/* WARN(1) */\nint x_y(void)\n{\n\treturn WARN_ON_ONCE(1);\n}\n"}, "a.c:5: WARN_ON_ONCE(): say skep_assert()"},
	{"kernel modules say their context", map[string]string{"x/kmod/a.c": spdxK + "/* Waits. */\n#include <linux/init.h>\n\n/* Process context. */\nint x_y(void)\n{\n\treturn 0;\n}\n"}, "x/kmod/a.c: its first comment does not say"},
	{"each header compiles alone", map[string]string{"abi/x.h": spdxC + "u64 x;\n"}, "abi/x.h"},
	{"gofmt", map[string]string{"cmd/skep/x.go": spdxGo + "package main\n\nvar  x int\n"}, "cmd/skep/x.go"},
	{"go vet", map[string]string{"cmd/skep/x.go": spdxGo + "package main\n\nimport \"fmt\"\n\nfunc init() { fmt.Printf(\"%d\", \"x\") }\n"}, "x.go:7"},
	{"go functions stay below 80 lines", map[string]string{"cmd/skep/x.go": spdxGo + "package main\n\nfunc f() {\n" + strings.Repeat("\tf()\n", 81) + "}\n"}, "function of 82"},
	{"go packages are described", map[string]string{"internal/engine/e.go": spdxGo + "package engine\n"}, "internal/engine"},
	{"go tests do not sleep", map[string]string{"internal/hub/hub_test.go": spdxGo + "package hub\n\nimport \"time\"\n\nfunc init() { time.Sleep(1) }\n"}, "hub_test.go:7"},
	{"go borders", map[string]string{"internal/engine/e.go": spdxGo + "// Package engine is one.\npackage engine\n\nimport _ \"skep/internal/hub\"\n"}, "not below"},
	{"go borders", map[string]string{"internal/engine/e.go": spdxGo + "// Package engine is one.\npackage engine\n\nimport \"C\"\n"}, "cgo"},
	{"go borders", map[string]string{"internal/new/e.go": spdxGo + "// Package new is one.\npackage new\n"}, "no line"},
	{"shellcheck", map[string]string{"mk/y.sh": spdxSh + "echo $1\n"}, "mk/y.sh:4"},
	{"python format", map[string]string{"python/y.py": "# SPDX-License-Identifier: MIT\nx = [1,2]\n"}, "python/y.py"},
	{"python format", map[string]string{"python/y.py": "# SPDX-License-Identifier: MIT\nx = [\n"}, "cannot format"},
	{"python lint", map[string]string{"python/y.py": "# SPDX-License-Identifier: MIT\nimport os\n"}, "'os' imported but unused"},
	{"shell scripts are strict and short", map[string]string{"mk/y.sh": "#!/bin/sh\n# SPDX-License-Identifier: MIT\n"}, "set -eu"},
	{"shell scripts are strict and short", map[string]string{"mk/y.sh": spdxSh + strings.Repeat("true\n", 150)}, "153 lines"},
	{"shell scripts are strict and short", map[string]string{"mk/y.sh": spdxSh + "# timeout 5\nenv -i timeout -k 1 20 true\n"}, "mk/y.sh:5: a fixed time limit"},
	{"shell scripts are strict and short", map[string]string{"mk/y": "#!/bin/bash\n# SPDX-License-Identifier: MIT\nset -eu\n"}, "want #!/bin/sh"},
	{"files stay below 800 lines", map[string]string{"abi/x.c": spdxC + strings.Repeat("\n", 801)}, "802 lines"},
	{"lines of assembly fit 80 columns", map[string]string{"abi/x.S": spdxC + "\tmov\t%rax, %rbx" + strings.Repeat(" ", 52) + "/* too much */\n"}, "abi/x.S:2: 92 columns"},
	{"mutants without effect are as listed", map[string]string{"tests/mutants/equal.tbl": "0123456789ab abi/x.c any number serves\n", "abi/x.c": spdxC}, "equal.tbl:1: stale: no line of abi/x.c"},
	{"mutants without effect are as listed", map[string]string{"tests/mutants/equal.tbl": "0123456789ab\n"}, "equal.tbl:1: want MARK FILE REASON"},
	{"licence line", map[string]string{"abi/x.c": "int x;\n"}, "no SPDX"},
	{"licence line", map[string]string{"abi/x.c": "/* SPDX-License-Identifier: Beerware */\n"}, "unknown licence"},
	{"licences are those of README", map[string]string{"include/skep/x.h": spdxC}, `include/skep/x.h: its licence is "MIT", but README.md says "GPL-2.0-only WITH`},
	{"licences are those of README", map[string]string{"x/kmod/a.c": spdxC}, `x/kmod/a.c: its licence is "MIT", but README.md says "GPL-2.0-only"`},
	{"licences are those of README", map[string]string{"abi/kmod.c": spdxK}, `abi/kmod.c: its licence is "GPL-2.0-only", but README.md says "MIT"`},
	{"licences are those of README", map[string]string{"abi/README.md": spdxMd, "README.md": spdxMd}, "no table of licences"},
	{"licences are those of README", map[string]string{"README.md": spdxMd + strings.Replace(licences, "include/skep/", "none/", 1)}, "README.md: no file has the licence"},
	{"no forbidden words", map[string]string{"abi/x.c": spdxC + "/* TO" + "DO: think */\n"}, "left for later"},
	{"no forbidden words", map[string]string{"abi/x.c": spdxC + "/* see /wo" + "rk/x */\n"}, "somebody's machine"},
	{"no forbidden words", map[string]string{"mk/y.sh": spdxSh + "GOPROXY=https://proxy.gol" + "ang.org\n"}, "registry"},
	{"no stray whitespace", map[string]string{"abi/x.c": spdxC + "int x; \n"}, "abi/x.c:2"},
	{"no stray whitespace", map[string]string{"abi/x.c": spdxC + "int x;"}, "one newline"},
	{"spelling", map[string]string{"abi/x.c": spdxC + "/* rec" + "ieve */\n"}, "abi/x.c:2"},
	{"links lead somewhere", map[string]string{"docs/x.md": "<!-- SPDX-License-Identifier: MIT -->\n[a](gone.md)\n"}, "gone.md"},
	{"pages name what is there", map[string]string{"docs/design/x.md": "see `abi/gone.c`\n"}, "x.md:1: abi/gone.c is not"},
	{"pages name what is there", map[string]string{"docs/design/x.md": "a.c and abi/gone/ do it\n"}, "x.md:1: abi/gone/ is not"},
	{"pages name what is there", map[string]string{"abi/README.md": "`a.c`, `gone.h`\n"}, "README.md:1: gone.h is not"},
	{"pages name what is there", map[string]string{"docs/design/x.md": "`a()` calls `gone()`\n"}, "x.md:1: gone() is not"},
	{"pages name what is there", map[string]string{"docs/x.md": "`abi_gone` of `sub/gone.c`, and `abi_` in `mtl/ofi`\n"}, "x.md:1: abi_gone is not in the tree\ndocs/x.md:1: sub/gone.c is not"},
	{"rooms have a page that names their folders", map[string]string{"new/x.go": spdxGo + "// Package x is one.\npackage x\n"}, "new/README.md is missing"},
	{"rooms have a page that names their folders", map[string]string{"abi/fs/x.h": spdxC, "abi/README.md": "fs/ and `fsx/`\n"}, "abi/README.md does not name abi/fs/"},
	{"shared packages are a small part", map[string]string{"internal/hub/x.go": spdxGo + "package hub\n" + strings.Repeat("\n", 50)}, "internal/ has 57 of the"},
	{"executable bits", map[string]string{"mk/noexec.sh": spdxSh}, "mk/noexec.sh"},
	{"windows programs", map[string]string{"build/bin/x.exe": "MZ, and no more"}, "x.exe"},
}

func findCheck(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no rule is called %q", name)
	return check{}
}

func TestPlanted(t *testing.T) {
	proved := map[string]bool{}
	for _, p := range plants {
		proved[p.check] = true
		t.Run(p.check+" "+p.want, func(t *testing.T) {
			bad, err := findCheck(t, p.check).run(plantTree(t, p.files))
			if errors.Is(err, errSkip) {
				t.Fatalf("skipped: %v", err)
			}
			if err != nil {
				bad = append(bad, err.Error())
			}
			text := strings.Join(bad, "\n")
			if !strings.Contains(text, p.want) {
				t.Errorf("no %q among the violations:\n%s", p.want, text)
			}
		})
	}
	for _, c := range checks {
		if !proved[c.name] {
			t.Errorf("nothing shows that %q can fail", c.name)
		}
	}
}

// A header in a room's include folder and the source file with its stem that includes it are
// one module, in whatever folder the file is. Six modules may form a circle.
func TestCircles(t *testing.T) {
	files := makeRing(6)
	tr := plantTree(t, files)
	if bad, err := cCircles(tr); err != nil || len(bad) > 0 {
		t.Errorf("a circle of 6: %v, %v", bad, err)
	}
	files["abi/include/door.h"] = spdxC
	files["abi/sub/door.c"] = spdxC + "#include \"abi/include/door.h\"\n#include \"abi/r0.h\"\n"
	files["abi/r3.c"] += "#include \"abi/include/door.h\"\n"
	bad, err := cCircles(plantTree(t, files))
	if err != nil || len(bad) != 1 || !strings.Contains(bad[0], "7 modules") {
		t.Errorf("a circle of 7 through an include folder: %v, %v", bad, err)
	}
}

// A page may name files by the end of their path, without a suffix or with a star, generated
// files, and functions of the tree.
func TestPages(t *testing.T) {
	tr := plantTree(t, map[string]string{
		"docs/design/x.md": "abi/a.c, `abi/a`, `a.h`, `abi/*.c`, `skep/types.h`, `build/bin/x`, `a()`, `_linux.go`, and/or\n",
		"docs/glossary.md": "not `abi/gone.c`\n",
		"abi/README.md":    "`../include/skep/types.h`\n",
	})
	if bad, err := pageNames(tr); err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
	}
}

func TestGoodTree(t *testing.T) {
	tr := plantTree(t, nil)
	for _, c := range checks {
		bad, err := c.run(tr)
		if err != nil && !errors.Is(err, errSkip) {
			t.Errorf("%s: %v", c.name, err)
		}
		if len(bad) > 0 {
			t.Errorf("%s: %s", c.name, strings.Join(bad, "\n"))
		}
	}
}

func TestWindowsProgram(t *testing.T) {
	tr := plantTree(t, map[string]string{
		"build/x.rc": "1 VERSIONINFO\nFILEVERSION 1,0,0,0\nBEGIN\nEND\n",
		"build/x.c":  "#include <windows.h>\nint main(void)\n{\n\treturn (int)GetTickCount64();\n}\n",
		windowsList:  "# SPDX-License-Identifier: MIT\nKERNEL32.dll Sleep\n",
	})
	exe := filepath.Join(tr.root, "build/bin/x.exe")
	if err := os.MkdirAll(filepath.Dir(exe), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := tr.runTool(nil, "x86_64-w64-mingw32-windres", "-o", "build/x.o", "build/x.rc")
	if err != nil || len(out) > 0 {
		t.Fatal(err, out)
	}
	out, err = tr.runTool(nil, "x86_64-w64-mingw32-gcc", "-o", exe, "build/x.c", "build/x.o")
	if err != nil || len(out) > 0 {
		t.Fatal(err, out)
	}
	bad, err := windowsPrograms(tr)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(bad, "\n")
	for _, want := range []string{"x.exe: no manifest", "imports GetTickCount64 from KERNEL32.dll"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q among:\n%s", want, text)
		}
	}
	if strings.Contains(text, "imports Sleep ") || strings.Contains(text, "no version") {
		t.Errorf("a listed import or a version that is there was reported:\n%s", text)
	}
}
