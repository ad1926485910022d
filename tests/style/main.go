// SPDX-License-Identifier: MIT

// Style checks the tree against docs/style.md and prints one TAP test per rule.
//
// This package's own tests plant a violation of every rule, so that each rule is known to
// fail.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// A tree is the set of files that a rule checks.
type tree struct {
	root  string
	files []string // relative to root, sorted, with slashes
}

// A check is one rule. It returns a line per violation. An errSkip says why it can't run here;
// any other error says that it failed to run.
type check struct {
	name string
	run  func(t *tree) ([]string, error)
}

var errSkip = errors.New("skipped")

var checks = []check{
	{"clang-format", clangFormat},
	{"c functions have at most 60 lines", cFunctions},
	{"c borders", cBorders},
	{"include circles are small", cCircles},
	{"c layers", cLayers},
	{"freestanding code has no long", cNoLong},
	{"no typedef of structs", cNoTypedef},
	{"static functions are named", staticNames},
	{"functions of kernel modules are named", moduleNames},
	{"kernel modules do not warn", moduleAsserts},
	{"kernel modules say their context", moduleContext},
	{"each header compiles alone", headersAlone},
	{"gofmt", goFormat},
	{"go vet", goVet},
	{"go functions stay below 80 lines", goFunctions},
	{"go packages are described", goPackageComment},
	{"go tests do not sleep", goNoSleep},
	{"go borders", goBorders},
	{"shellcheck", checkShell},
	{"shell scripts are strict and short", shellShape},
	{"python format", pythonFormat},
	{"python lint", pythonLint},
	{"files stay below 800 lines", fileSize},
	{"lines of assembly fit 80 columns", asmWidth},
	{"licence line", checkLicence},
	{"licences are those of README", checkLicenceTable},
	{"no forbidden words", checkWords},
	{"no stray whitespace", checkWhitespace},
	{"spelling", checkSpelling},
	{"links lead somewhere", checkLinks},
	{"pages name what is there", pageNames},
	{"rooms have a page that names their folders", roomPages},
	{"shared packages are a small part", sharedShare},
	{"executable bits", execBits},
	{"mutants without effect are as listed", checkEqual},
	{"windows programs", windowsPrograms},
}

const shown = 60 // violations printed per rule

func main() {
	root := flag.String("root", ".", "top of the tree")
	only := flag.String("only", "", "name of the one rule to check")
	flag.Parse()
	t, err := openTree(*root)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tests/style: %v\n", err)
		os.Exit(2)
	}
	bad, count := 0, 0
	for _, c := range checks {
		if *only != "" && *only != c.name {
			continue
		}
		count++
		if !c.report(t, count) {
			bad++
		}
	}
	fmt.Printf("1..%d\n", count)
	if bad > 0 {
		os.Exit(1)
	}
}

func (c check) report(t *tree, number int) bool {
	list, err := c.run(t)
	switch {
	case errors.Is(err, errSkip):
		fmt.Printf("ok %d - %s # SKIP %s\n", number, c.name,
			strings.TrimPrefix(err.Error(), errSkip.Error()+": "))
		return true
	case err != nil:
		list = append(list, err.Error())
	}
	if len(list) == 0 {
		fmt.Printf("ok %d - %s\n", number, c.name)
		return true
	}
	fmt.Printf("not ok %d - %s\n", number, c.name)
	for i, line := range list {
		if i == shown {
			fmt.Printf("# and %d more\n", len(list)-shown)
			break
		}
		fmt.Printf("# %s\n", strings.ReplaceAll(line, "\n", "\n#   "))
	}
	return false
}

// openTree lists what git would commit; without git, all files but build/.
func openTree(root string) (*tree, error) {
	t := &tree{root: root}
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		for _, name := range strings.Split(string(out), "\x00") {
			t.add(name)
		}
	} else {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && path != root && (d.Name() == "build" || d.Name() == ".git") {
				return filepath.SkipDir
			}
			name, err := filepath.Rel(root, path)
			t.add(filepath.ToSlash(name))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	sort.Strings(t.files)
	if len(t.files) == 0 {
		return nil, fmt.Errorf("no file in %s", root)
	}
	return t, nil
}

func (t *tree) add(name string) {
	info, err := os.Lstat(filepath.Join(t.root, name))
	if err == nil && info.Mode().IsRegular() {
		t.files = append(t.files, name)
	}
}

// filesWith lists the files whose names end in one of the suffixes.
func (t *tree) filesWith(suffixes ...string) []string {
	var list []string
	for _, name := range t.files {
		for _, s := range suffixes {
			if strings.HasSuffix(name, s) {
				list = append(list, name)
			}
		}
	}
	return list
}

func (t *tree) exists(name string) bool {
	_, err := os.Stat(filepath.Join(t.root, name))
	return err == nil
}

func (t *tree) read(name string) string {
	text, err := os.ReadFile(filepath.Join(t.root, name))
	if err != nil {
		return "" // removed since the tree was listed
	}
	return string(text)
}

func (t *tree) lines(name string) []string {
	return strings.Split(strings.TrimSuffix(t.read(name), "\n"), "\n")
}

// isBinary reports files that are not text.
func (t *tree) isBinary(name string) bool {
	text := t.read(name)
	return strings.ContainsRune(text[:min(len(text), 8000)], 0)
}

// runTool runs a program in the tree and returns the lines that it printed. Its exit status
// is an error only if it printed nothing.
func (t *tree) runTool(env []string, name string, args ...string) ([]string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if text != "" {
		return strings.Split(text, "\n"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nil, nil
}
