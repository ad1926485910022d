// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A component is the work of others that is part of Skep's files, or becomes part
// of the programs that users link.
type component struct {
	name, version string
	licence       string // SPDX expression
	purl          string
	texts         []string // files with its licence
}

// A goPackage is one package in the output of go list.
type goPackage struct {
	Dir      string
	Standard bool
	Module   *struct{ Path, Version, Dir string }
}

// goModules returns the modules whose packages are linked into Skep's programs.
func goModules(systems []string, programs ...string) ([]component, error) {
	found := map[string]*component{}
	for _, system := range systems {
		list, err := listPackages(system, programs)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if p.Standard || p.Module == nil || p.Module.Version == "" {
				continue
			}
			c := found[p.Module.Path]
			if c == nil {
				c = &component{name: p.Module.Path, version: p.Module.Version,
					purl: "pkg:golang/" + p.Module.Path + "@" + p.Module.Version}
				found[p.Module.Path] = c
			}
			c.texts = append(c.texts, licenceFiles(p.Dir, p.Module.Dir)...)
		}
	}
	var all []component
	for _, c := range found {
		slices.Sort(c.texts)
		c.texts = slices.Compact(c.texts)
		if err := c.identify(); err != nil {
			return nil, err
		}
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func listPackages(system string, programs []string) ([]goPackage, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, programs...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licenceFiles returns the licence files in a package's folder and in the folders
// above it, up to the top of its module.
func licenceFiles(dir, module string) []string {
	var found []string
	for ; strings.HasPrefix(dir, module); dir = filepath.Dir(dir) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if licenceName.MatchString(e.Name()) && !e.IsDir() && !strings.HasSuffix(e.Name(), ".go") {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found
}

// knownLicences maps a phrase of a licence's text to its name.
var knownLicences = []struct{ phrase, name string }{
	{"Apache License", "Apache-2.0"},
	{"Mozilla Public License, version 2.0", "MPL-2.0"},
	{"Permission is hereby granted, free of charge", "MIT"},
	{"nor the names of", "BSD-3-Clause"},
	{"Neither the name of", "BSD-3-Clause"},
}

// identify finds the licences of a module in its files. An unknown licence is an
// error, because it may not permit publication.
func (c *component) identify() error {
	var names []string
	for _, path := range c.texts {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		plain := strings.Join(strings.Fields(string(text)), " ")
		for _, k := range knownLicences {
			if strings.Contains(strings.ToLower(plain), strings.ToLower(k.phrase)) {
				names = append(names, k.name)
			}
		}
		if strings.Contains(plain, "Redistribution and use in source and binary forms") && !strings.Contains(strings.Join(names, " "), "BSD") {
			names = append(names, "BSD-2-Clause")
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s %s: no licence that is known among %v", c.name, c.version, c.texts)
	}
	slices.Sort(names)
	c.licence = strings.Join(slices.Compact(names), " AND ")
	return nil
}

// goLibrary returns Go's standard library, which is part of every Go program.
func goLibrary() (component, error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		return component{}, fmt.Errorf("go env: %q, %w", out, err)
	}
	version := strings.TrimPrefix(words[1], "go")
	text := filepath.Join(words[0], "LICENSE")
	return component{name: "Go standard library", version: version, licence: "BSD-3-Clause", purl: "pkg:golang/std@" + version, texts: []string{text}}, nil
}

// staticLibraries returns the rows of linked.tbl: library, package, licence.
func staticLibraries(table string) ([]component, error) {
	text, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	var all []component
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: %q has no library, package and licence", table, line)
		}
		version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", words[1]).Output()
		if err != nil {
			return nil, fmt.Errorf("the version of the package %s: %w", words[1], err)
		}
		all = append(all, component{name: words[1], version: string(version), licence: strings.Join(words[2:], " "),
			purl: "pkg:deb/debian/" + words[1] + "@" + string(version), texts: []string{filepath.Join("/usr/share/doc", words[1], "copyright")}})
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b component) bool { return a.name == b.name }), nil
}

var commonLicence = regexp.MustCompile(`/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])`)

// noticesText returns THIRD-PARTY-NOTICES: the licence of each component, and the
// licence texts that Debian's copyright files only refer to.
func noticesText(linked, libraries []component) (string, error) {
	var b strings.Builder
	b.WriteString("Skep contains work of others. Their licences follow.\n")
	common := map[string]bool{}
	for _, part := range []struct {
		head string
		list []component
	}{{"Part of skep and skep.exe", linked},
		{"Part of bee, of the libraries, or of programs that users link with them or build from examples", libraries}} {
		fmt.Fprintf(&b, "\n\n%s\n%s\n\n", strings.Repeat("=", 78), part.head)
		for _, c := range part.list {
			fmt.Fprintf(&b, "  %s %s: %s\n", c.name, c.version, c.licence)
		}
		for _, c := range part.list {
			for _, path := range c.texts {
				text, err := os.ReadFile(path)
				if err != nil {
					return "", fmt.Errorf("the licence of %s: %w", c.name, err)
				}
				fmt.Fprintf(&b, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("-", 78), c.name, c.version, filepath.Base(path), text)
				for _, m := range commonLicence.FindAllStringSubmatch(string(text), -1) {
					common[m[1]] = true
				}
			}
		}
	}
	return b.String() + commonTexts(common), nil
}

func commonTexts(names map[string]bool) string {
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	var b strings.Builder
	for _, name := range sorted {
		if text, err := os.ReadFile("/usr/share/common-licenses/" + name); err == nil {
			fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), name, text)
		}
	}
	return b.String()
}
