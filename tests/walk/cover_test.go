// SPDX-License-Identifier: MIT

package walk

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listPages returns README, CONTRIBUTING and all pages below docs/ except the results, which
// record commands of the past.
func listPages(t *testing.T) (list []string) {
	t.Helper()
	list = []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err == nil && strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/results/") {
			list = append(list, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// An entry of commands.tbl: a page, the begin of a command, and the test that types it; the rule of
// make test that does; or - and the reason why none does.
type entry struct {
	line                int
	page, command, test string
	used                bool
}

// covers reports whether the entry covers a command. If a test types all commands of a page
// after a prompt, the page has one entry for them, such as "$ *". An entry may begin with a prompt.
func (e *entry) covers(c Command) bool {
	if prompt, ok := strings.CutSuffix(e.command, " *"); ok {
		return c.Prompt == prompt
	}
	return strings.HasPrefix(c.Name(), e.command) || strings.HasPrefix(c.Prompt+" "+c.Name(), e.command)
}

func readTable(text string) (list []*entry, bad []string) {
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		column := strings.Split(line, "\t")
		if len(column) != 3 || column[0] == "" || column[1] == "" || column[2] == "" {
			bad = append(bad, fmt.Sprintf("commands.tbl:%d: want page, command, test", i+1))
			continue
		}
		list = append(list, &entry{line: i + 1, page: column[0], command: column[1], test: column[2]})
	}
	return list, bad
}

// judgeTable compares commands with the table. exists reports whether a test exists, and lacks
// which options of a command it never gives.
func judgeTable(commands []Command, table []*entry, exists func(suite, test string) bool, lacks func(c Command, test string) []string) (bad []string) {
	for _, c := range commands {
		var found *entry
		for _, e := range table {
			if e.page == c.Page && e.covers(c) && (found == nil || len(e.command) > len(found.command)) {
				found = e
			}
		}
		if found == nil {
			bad = append(bad, c.Page+fmt.Sprintf(":%d: no test types: %s", c.Line, c.Name()))
			continue
		}
		found.used = true
		if list := lacks(c, found.test); len(list) > 0 {
			bad = append(bad, fmt.Sprintf("commands.tbl:%d: %q types no %s of %s", found.line, found.test, strings.Join(list, ", "), c))
		}
	}
	for _, e := range table {
		suite, test, ok := strings.Cut(e.test, ": ")
		reason := strings.HasPrefix(e.test, "- ") && len(e.test) > 20
		switch {
		case !e.used:
			bad = append(bad, fmt.Sprintf("commands.tbl:%d: %s has no such command", e.line, e.page))
		case !reason && (!ok || !exists(suite, test)):
			bad = append(bad, fmt.Sprintf("commands.tbl:%d: there is no test %q, and no reason why not", e.line, e.test))
		}
	}
	return bad
}

// Each command that a page shows is typed by a test, or the table says why not.
func TestCommands(t *testing.T) {
	text, err := os.ReadFile("commands.tbl")
	if err != nil {
		t.Fatal(err)
	}
	table, bad := readTable(string(text))
	var commands []Command
	for _, name := range listPages(t) {
		list, err := Read(filepath.Join(root, name), name)
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, list...)
	}
	if len(commands) < 100 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, line := range append(bad, judgeTable(commands, table, findTests(t), lackOptions(t))...) {
		t.Error(line)
	}
}

var (
	option   = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	pageName = regexp.MustCompile(`"((?:docs/[\w/-]+|[A-Z]+)\.md)"`)
	function = regexp.MustCompile(`^[Tw][a-z]+[A-Z]\w+`) // a test, or a part of one that types into a machine
)

// lackOptions returns a function that searches the options of a command in the files of its test,
// and in the pages that they name. A test that names the command's page types what is there.
func lackOptions(t *testing.T) func(c Command, test string) []string {
	t.Helper()
	return func(c Command, test string) (list []string) {
		suite, name, _ := strings.Cut(test, ": ")
		if suite == "rule" || suite == "-" || strings.HasPrefix(test, "- ") {
			return nil
		}
		var text strings.Builder
		for _, file := range filesOfTest(name) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			text.Write(b)
		}
		for _, page := range pageName.FindAllStringSubmatch(text.String(), -1) {
			if page[1] == c.Page {
				return nil
			}
			b, err := os.ReadFile(filepath.Join(root, page[1]))
			if err != nil {
				t.Error(err)
			}
			text.Write(b)
		}
		for _, m := range option.FindAllStringSubmatch(c.Text, -1) {
			if !strings.Contains(text.String(), m[1]) {
				list = append(list, m[1])
			}
		}
		return list
	}
}

func declares(text, name string) bool {
	return regexp.MustCompile(`(?m)^func (\(\w+ \*\w+\) )?` + name + `\(`).MatchString(text)
}

// filesOfTest returns the files that hold a test: "folder TestName", or a text in a test's output.
func filesOfTest(test string) (list []string) {
	words := strings.Fields(test)
	if len(words) == 2 && function.MatchString(words[1]) {
		name := function.FindString(words[1])
		files, _ := filepath.Glob(filepath.Join(root, words[0], "*_test.go"))
		return slices.DeleteFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err != nil || !declares(string(text), name)
		})
	}
	own := test[strings.LastIndex(test, ": ")+1:] // in front of it is what it was tried on
	out, _ := exec.Command("grep", "-rlF", "--include=*.sh", "--include=*.go", "--include=*.c", "--exclude=cover_test.go", "-e", strings.TrimSpace(own), root+"/tests", root+"/bee", root+"/o2g", root+"/examples").Output()
	return strings.Fields(string(out))
}

// findTests returns a function that searches a suite in the room.mk files and a test's name in
// the tests.
func findTests(t *testing.T) func(suite, test string) bool {
	t.Helper()
	out, err := exec.Command("sh", "-c", "cd "+root+" && cat mk/*.mk room.mk */room.mk */*/room.mk 2>/dev/null; true").Output()
	if err != nil {
		t.Fatal(err)
	}
	rooms := string(out)
	return func(suite, test string) bool {
		if suite == "rule" {
			file, text, _ := strings.Cut(test, ": ")
			rule, err := os.ReadFile(filepath.Join(root, file))
			return err == nil && text != "" && strings.Contains(string(rule), text)
		}
		quoted := regexp.QuoteMeta(suite) // a suite has a rule of its own, or is in a list of similar ones
		if !regexp.MustCompile(`(?m)^(suite_` + quoted + ` |\w+_SUITES :?\+?= (.* )?` + quoted + `( |$))`).MatchString(rooms) {
			return false
		}
		return len(filesOfTest(test)) > 0
	}
}

// A rule counts only if the file has its text.
func TestCommands_rule(t *testing.T) {
	exists := findTests(t)
	for test, want := range map[string]bool{
		"dynamos/updates/room.mk: bin/skep update build": true, "dynamos/updates/room.mk: bin/skep update burn": false,
		"dynamos/updates/none.mk: bin/skep": false, "dynamos/updates/room.mk": false,
	} {
		if exists("rule", test) != want {
			t.Errorf("rule: %s: want %v", test, want)
		}
	}
}

// Planted faults: a new command without a test, a row without a command, a missing test, and an
// empty reason.
func TestCommands_planted(t *testing.T) {
	block := readBlock("p.md", 1, []string{"$ skep new --thing  # what", "output", "$ cat <<'END'", "text", "END", `$ skep long \`, "    --more"})
	if len(block) != 3 || block[0].Text != "skep new --thing" || len(block[0].Output) != 1 || block[1].Name() != "cat <<'END'" || block[2].Text != "skep long --more" {
		t.Fatalf("read is %q", block)
	}
	plain := readBlock("p.md", 1, []string{"Module m;", "build/bin/skep up   # the hub", "sudo insmod x.ko"})
	if len(plain) != 2 || plain[0].Text != "build/bin/skep up" {
		t.Fatalf("read is %q", plain)
	}
	exists := func(suite, test string) bool { return suite == "walk" && (test == "here" || test == "bare") }
	lacks := func(_ Command, test string) []string {
		if test == "walk: bare" {
			return []string{"--thing"}
		}
		return nil
	}
	for table, want := range map[string]string{
		"p.md\t$ *\twalk: here":                                   "",
		"p.md\tlab# *\twalk: here":                                "no test types: skep new|has no such command",
		"p.md\tskep new\twalk: here":                              "",
		"p.md\t$ skep new\twalk: here":                            "",
		"p.md\tlab# skep new\twalk: here":                         "no test types: skep new|has no such command",
		"p.md\tskep old\twalk: here":                              "no test types: skep new|has no such command",
		"q.md\tskep new\twalk: here":                              "no test types: skep new|has no such command",
		"p.md\tskep new\twalk: gone":                              "there is no test",
		"p.md\tskep new\t-":                                       "there is no test",
		"p.md\tskep new\t- it needs a second computer with Slurm": "",
		"p.md\tskep new\twalk: bare":                              `"walk: bare" types no --thing of p.md:1: skep new`,
		"p.md\tskep new":                                          "want page, command, test|no test types",
	} {
		list, bad := readTable(table)
		got := strings.Join(append(bad, judgeTable(block[:1], list, exists, lacks)...), "\n")
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(got, part) || want == "" && got != "" {
				t.Errorf("%q: got %q, want %q", table, got, want)
			}
		}
	}
}

// Options count only if the test, or a page that it types, has them.
func TestCommands_options(t *testing.T) {
	lacks := lackOptions(t)
	for _, c := range []struct{ page, text, test, want string }{
		{"docs/x.md", "skep exec --on os=windows -- x --more", "walk-wine: tests/walk TestWindowsPCs", "--more"},
		{"docs/x.md", "skep update revert links --wait 2s --twice", "vm-update: tests/vm walkStuck", "--twice"},
		{"README.md", "skep exec --anything", "walk-wine: tests/walk TestWindowsPCs", ""},
		{"docs/x.md", "skep exec --anything", "- it needs a second computer with Slurm", ""},
		{"docs/x.md", "skep exec --anything", "wine-kit: the result counts no failure", "--anything"},
	} {
		if got := strings.Join(lacks(Command{Page: c.page, Text: c.text}, c.test), " "); got != c.want {
			t.Errorf("%s: %s lacks %q, want %q", c.text, c.test, got, c.want)
		}
	}
}

// Output is compared without numbers. An additional, missing or changed line is detected.
func TestMatch(t *testing.T) {
	shown := []string{"NAME  CALLS", "a     17", "…", "end … of it"}
	for printed, good := range map[string]bool{
		"NAME CALLS\na 3\nend now of it":             true,
		"NAME CALLS\na 3\nb 4\nc\nend now of it":     true,
		"NAME CALLS\nend now of it":                  false,
		"NAME CALLS\na 3\nend now of it\nand more":   false,
		"NAMES CALLS\na 3\nend now of it":            false,
		"warning\nNAME CALLS\na 3\nend now of it\n.": false,
	} {
		if err := Match(shown, strings.Split(printed, "\n")); (err == nil) != good {
			t.Errorf("%q: %v", printed, err)
		}
	}
}
