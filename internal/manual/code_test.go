// SPDX-License-Identifier: MIT

package manual

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// Calls that read a variable by its name.
	readByName = regexp.MustCompile(`\b(?:getenv|os\.Getenv|os\.LookupEnv|GetEnvironmentVariable[AW])\(L?"([A-Z][A-Z0-9_]*)"`)
	// A string that is only a name is passed to one of our functions, which reads it.
	ownName = regexp.MustCompile(`"((?:SKEP|FI_O2G)_[A-Z0-9_]*[A-Z0-9])"`)
	// Parameters of the provider are variables that libfabric reads.
	providerName = regexp.MustCompile(`\{"([a-z_]+)", FI_PARAM_`)
	// Functions of Go's library that read variables.
	readByLibrary = map[string]string{"os.UserHomeDir()": "HOME", "os.TempDir()": "TMPDIR", "os.UserCacheDir()": "XDG_CACHE_HOME"}
)

// isProduct reports whether a file belongs to a program for users.
func isProduct(path string) bool {
	for _, part := range strings.Split(filepath.Dir(path), "/") {
		if slices.Contains([]string{"tests", "test", "testdata", "vmtest", "bench"}, part) {
			return false
		}
	}
	return slices.Contains([]string{".c", ".h", ".go", ".py"}, filepath.Ext(path)) && !strings.HasSuffix(path, "_test.go") &&
		!strings.HasPrefix(path, "internal/manual/")
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
		for _, pattern := range []*regexp.Regexp{readByName, ownName} {
			for _, m := range pattern.FindAllSubmatch(text, -1) {
				read[string(m[1])] = name
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
