// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A ruling is a row of README's table of licences. A row without folders is for all other
// files.
type ruling struct {
	folders []string // or files; */x is a folder x anywhere
	licence string
}

var (
	licenceTable = regexp.MustCompile(`(?s)\n## Licence\n(.*?)(?:\n## |$)`)
	licenceRow   = regexp.MustCompile("(?m)^\\|(.*)\\| `([^`|]+)` \\|$")
	quoted       = regexp.MustCompile("`([^`]+)`")
)

func readRulings(page string) (list []ruling) {
	m := licenceTable.FindStringSubmatch(page)
	if m == nil {
		return nil
	}
	for _, row := range licenceRow.FindAllStringSubmatch(m[1], -1) {
		r := ruling{licence: row[2]}
		for _, q := range quoted.FindAllStringSubmatch(row[1], -1) {
			r.folders = append(r.folders, strings.TrimSuffix(q[1], "/"))
		}
		list = append(list, r)
	}
	return list
}

func (r *ruling) covers(name string) bool {
	if len(r.folders) == 0 {
		return true
	}
	for _, f := range r.folders {
		inner, anywhere := strings.CutPrefix(f, "*/")
		if isUnder(name, f) || anywhere && strings.Contains("/"+name, "/"+inner+"/") {
			return true
		}
	}
	return false
}

// checkLicenceTable compares README's table of licences with the lines of the files.
func checkLicenceTable(t *tree) ([]string, error) {
	list := readRulings(t.read("README.md"))
	if len(list) == 0 || len(list[len(list)-1].folders) > 0 {
		return []string{"README.md: no table of licences that ends with all other files"}, nil
	}
	var bad []string
	used := make([]bool, len(list))
	for _, name := range t.files {
		if unlicensed.MatchString(name) || t.isBinary(name) {
			continue
		}
		for i := range list {
			if !list[i].covers(name) {
				continue
			}
			used[i] = true
			if found := t.licenceOf(name); found != "" && found != list[i].licence {
				bad = append(bad, fmt.Sprintf("%s: its licence is %q, but README.md says %q", name, found, list[i].licence))
			}
			break
		}
	}
	for i, r := range list {
		if !used[i] {
			bad = append(bad, fmt.Sprintf("README.md: no file has the licence %q", r.licence))
		}
	}
	return bad, nil
}

// licenceOf returns the licence that a file's first lines name, or "".
func (t *tree) licenceOf(name string) string {
	lines := t.lines(name)
	for _, line := range lines[:min(5, len(lines))] {
		if m := licenceLine.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}
