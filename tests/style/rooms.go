// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sharedPercent bounds internal/: its share of the lines of the product's code.
const sharedPercent = 10

var (
	// Folders that are no rooms, or whose page is in docs/.
	noRooms = regexp.MustCompile(`^(LICENSES|docs|mk|\.\w+)$`)
	// Folders of a room that its README need not name: tests, and what they read.
	noSubject = regexp.MustCompile(`^(test|tests|testdata|include)$`)
	// What users run: no tests, and nothing that only tests need.
	notProduct  = regexp.MustCompile(`_test\.go$|(^|/)(test|tests|testdata)/`)
	codeInProse = regexp.MustCompile("`[^`]*`")
)

// roomPages checks that each room has a README, and that it names each of the room's folders.
func roomPages(t *tree) ([]string, error) {
	folders := map[string][]string{}
	for _, name := range t.files {
		room, rest, deep := strings.Cut(name, "/")
		if !deep || noRooms.MatchString(room) {
			continue
		}
		folders[room] = append(folders[room], "")
		if sub, _, deep := strings.Cut(rest, "/"); deep && !noSubject.MatchString(sub) {
			folders[room] = append(folders[room], sub)
		}
	}
	var bad []string
	for room, list := range folders {
		page := room + "/README.md"
		if room == "include" || room == "cmd" {
			list = nil // one folder each
		}
		if !t.exists(page) {
			bad = append(bad, page+" is missing: each room has a page")
			continue
		}
		code := strings.Join(codeInProse.FindAllString(t.read(page), -1), " ")
		slices.Sort(list)
		for _, sub := range slices.Compact(list) {
			named := regexp.MustCompile("(^|[\\s/`])" + regexp.QuoteMeta(sub) + "[/`]")
			if sub != "" && !named.MatchString(code) {
				bad = append(bad, fmt.Sprintf("%s does not name %s/", page, path.Join(room, sub)))
			}
		}
	}
	slices.Sort(bad)
	return bad, nil
}

// sharedShare checks that internal/, which several rooms share, stays a small part of the
// product's code: a package for one room belongs in that room.
func sharedShare(t *tree) ([]string, error) {
	shared, all := 0, 0
	for _, name := range t.filesWith(".c", ".h", ".S", ".go") {
		if notProduct.MatchString(name) {
			continue
		}
		n := len(t.lines(name))
		all += n
		if strings.HasPrefix(name, "internal/") {
			shared += n
		}
	}
	if shared*100 >= all*sharedPercent {
		return []string{fmt.Sprintf("internal/ has %d of the %d lines of the product, which is %d %% or more", shared, all, sharedPercent)}, nil
	}
	return nil, nil
}
