// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"skep/grid/proto"
)

// All programs of a release have one version.
func TestOneVersion(t *testing.T) {
	words := strings.ReplaceAll(version, ".", ",")
	for _, at := range []struct{ file, pattern, want string }{
		{"cmd/skep/skep.rc", `FILEVERSION (.*),0\n`, words},
		{"cmd/skep/skep.rc", `PRODUCTVERSION (.*),0\n`, words},
		{"cmd/skep/skep.rc", `"FileVersion", "(.*)\.0"`, version},
		{"cmd/skep/skep.rc", `"ProductVersion", "(.*)\.0"`, version},
		{"include/skep/version.h", `SKEP_VERSION "(.*)"`, version},
		{"lab/guest/main.go", `const version = "(.*)"`, version},
		{"python/skep/__init__.py", `__version__ = "(.*)"`, version},
		{"CHANGELOG.md", `(?m)^## ([0-9.]+),`, version},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", at.file))
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(at.pattern).FindSubmatch(text); found == nil || string(found[1]) != at.want {
			t.Errorf("%s: %s gives %q, want %s", at.file, at.pattern, found, at.want)
		}
	}
}

// The other names of skep say its version too.
func TestVersionOfTools(t *testing.T) {
	for name := range tools {
		var err error
		out := printedBy(t, &os.Stdout, func() { err = findTool("/usr/bin/"+name)(t.Context(), []string{"--version"}) })
		if err != nil || out != name+" "+version+"\n" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestVersionSaysProtocolAndSubstrates(t *testing.T) {
	out, _, _ := outputOf(t, "version", "--json")
	var said versions
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if said.Version != version || said.Protocol != proto.Revision || !slices.Contains(said.Substrates, "linux") {
		t.Errorf("%+v", said)
	}
	out, _, _ = outputOf(t, "version")
	for _, want := range []string{"skep " + version, fmt.Sprintf("\nprotocol    hub and nodes %d (and", proto.Revision), "\nsubstrates  linux"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}

func TestSubstratesOfAnInstallation(t *testing.T) {
	folder := t.TempDir()
	for _, add := range []struct{ file, want string }{
		{"skep", "linux"}, {"bee", "linux bee-linux"}, {"sms-proxy", "linux bee-linux"}, {"sms.image", "linux bee-linux bare"},
	} {
		if err := os.WriteFile(filepath.Join(folder, add.file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(findSubstrates(filepath.Join(folder, "skep")), " "); got != add.want {
			t.Errorf("with %q: %s, want %s", add.file, got, add.want)
		}
	}
}
