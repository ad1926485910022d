// SPDX-License-Identifier: MIT

package manual

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// Calls that read a variable by its name.
	readByName = regexp.MustCompile(`\b(?:getenv|secure_getenv|_wgetenv|os\.Getenv|os\.LookupEnv|GetEnvironmentVariable[AW])\(L?"([A-Z][A-Z0-9_]*)"`)
	// Python's, and those of scripts that users run.
	readByPython = regexp.MustCompile(`\bos\.environ(?:\.get\(|\.pop\(|\[)\s*"([A-Z][A-Z0-9_]*)"(?:\]\s*(=)[^=])?`)
	readByShell  = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)`)
	readByBatch  = regexp.MustCompile(`%([A-Z][A-Z0-9_]*)%`)
	// A string that is only a name is passed to one of our functions, which reads it.
	ownName = regexp.MustCompile(`"((?:SKEP|FI_O2G)_[A-Z0-9_]*[A-Z0-9])"`)
	// Parameters of the provider are variables that libfabric reads.
	providerName = regexp.MustCompile(`\{"([a-z_]+)", FI_PARAM_`)
	// Functions of Go's library that read variables.
	readByLibrary = map[string]string{"os.UserHomeDir()": "HOME", "os.TempDir()": "TMPDIR", "os.UserCacheDir()": "XDG_CACHE_HOME",
		"os.UserConfigDir()": "XDG_CONFIG_HOME"}
)

// isProduct reports whether a file belongs to a program for users.
func isProduct(path string) bool {
	for _, part := range strings.Split(filepath.Dir(path), "/") {
		if slices.Contains([]string{"tests", "test", "testdata", "vmtest", "bench"}, part) {
			return false
		}
	}
	if strings.HasPrefix(path, "examples/") && filepath.Ext(path) == ".sh" || filepath.Ext(path) == ".cmd" {
		return true
	}
	return slices.Contains([]string{".c", ".h", ".go", ".py"}, filepath.Ext(path)) && !strings.HasSuffix(path, "_test.go") &&
		!strings.HasPrefix(path, "internal/manual/")
}

// patternsOf returns what reads a variable in a file's language.
func patternsOf(name string) []*regexp.Regexp {
	switch filepath.Ext(name) {
	case ".sh":
		return []*regexp.Regexp{readByShell}
	case ".cmd":
		return []*regexp.Regexp{readByBatch}
	case ".py":
		return []*regexp.Regexp{readByName, readByPython, ownName}
	}
	return []*regexp.Regexp{readByName, ownName}
}

// variablesRead returns the variables that the product's code reads, and the file of each.
func variablesRead(t *testing.T, root string) map[string]string {
	read := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if d.IsDir() && (name == "build" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !isProduct(name) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, pattern := range patternsOf(name) {
			for _, m := range pattern.FindAllSubmatch(text, -1) {
				if len(m) < 3 || len(m[2]) == 0 { // it is not only set
					read[string(m[1])] = name
				}
			}
		}
		for _, m := range providerName.FindAllSubmatch(text, -1) {
			read["FI_O2G_"+strings.ToUpper(string(m[1]))] = name
		}
		for call, variable := range readByLibrary {
			if strings.Contains(string(text), call) {
				read[variable] = name
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Each language's ways to read a variable are found.
func TestVariablesAreFoundInEachLanguage(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/x.c":           "getenv(\"A1\"); secure_getenv(\"A2\"); GetEnvironmentVariableW(L\"A3\", b, n); _wgetenv(L\"A4\");",
		"a/x.go":          "os.Getenv(\"B1\"); os.LookupEnv(\"B2\"); own(\"SKEP_B3\"); os.UserConfigDir()",
		"a/x.py":          "os.getenv(\"C1\"); os.environ.get(\"C2\"); os.environ[\"C3\"]; os.environ[\"NOT\"] = 1; os.environ.pop(\"C4\")\nif os.environ[\"C5\"] == 1:",
		"examples/a/x.sh": "echo $D1 ${D2:-x} $own",
		"kit/x.cmd":       "echo %E1% %own% %~dp0",
		"a/x.sh":          "echo $NOT",
		"a/x_test.go":     "os.Getenv(\"NOT\")",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := "A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 D1 D2 E1 SKEP_B3 XDG_CONFIG_HOME"
	if got := strings.Join(slices.Sorted(maps.Keys(variablesRead(t, root))), " "); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// The page lists exactly the variables that programs read.
func TestEnvironmentIsThatOfTheCode(t *testing.T) {
	read := variablesRead(t, "../..")
	if len(read) < 40 {
		t.Fatalf("only %d variables were found", len(read))
	}
	listed := map[string]bool{}
	for _, g := range Groups() {
		for _, v := range g.Variables {
			listed[v.Name] = true
			if read[v.Name] == "" {
				t.Errorf("no program reads %s", v.Name)
			}
		}
	}
	for name, file := range read {
		if !listed[name] {
			t.Errorf("%s reads %s, which the page lacks", file, name)
		}
	}
}

// docs/environment.md is the file that make man writes.
func TestEnvironmentPageIsCurrent(t *testing.T) {
	var b strings.Builder
	if err := WriteEnvironmentMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/environment.md")
	if err != nil || string(page) != b.String() {
		t.Errorf("docs/environment.md is not what make man writes into build/gen/pages/environment.md: %v", err)
	}
}
