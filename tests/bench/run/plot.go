// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skep/tests/picture"
)

// Units of the keys in lines "result bench=NAME key=value...".
var lineUnits = []string{"ns", "us", "ms", "s", "mbs", "instructions"}

// plotResults draws the lines for machines of one bench as bars, a group for
// each line or, where lines are of one way each, for each figure.
func plotResults(lines []string) []picture.Group {
	var groups []picture.Group
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "result" {
			continue
		}
		if strings.Contains(words[1], "=") {
			if g := groupOfPairs(words[1:]); len(g.Bars) > 0 {
				groups = append(groups, g)
			}
			continue
		}
		groups = addWay(groups, words[1:])
	}
	return groups
}

// groupOfPairs makes a group of key=value words. Numbers with a unit become bars; other
// words name the group.
func groupOfPairs(words []string) picture.Group {
	var g picture.Group
	var names []string
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		at := strings.LastIndexByte(key, '_')
		v, err := strconv.ParseFloat(value, 64)
		switch {
		case key == "bench" || strings.HasPrefix(key, "added"): // differences are not drawn
		case err == nil && slices.Contains(lineUnits, strings.ToLower(key[at+1:])):
			if of := picture.BetterOf(key[at+1:]); len(g.Bars) == 0 {
				g.Better = of
			} else if g.Better != of {
				g.Better = ""
			}
			name := strings.TrimSuffix(key[:max(at, 0)], "_")
			g.Bars = append(g.Bars, picture.Bar{Name: strings.TrimSpace(name + " " + key[at+1:]), Value: v, Ours: isOurs(name)})
		case err != nil:
			names = append(names, value)
		}
	}
	g.Name = strings.Join(names, " ")
	return g
}

// addWay adds a line "PROGRAM CASE WAY FIGURE VALUE UNIT". A way is a network or a system.
func addWay(groups []picture.Group, w []string) []picture.Group {
	if len(w) != 6 {
		return groups
	}
	v, err := strconv.ParseFloat(w[4], 64)
	if err != nil {
		return groups
	}
	name := strings.ReplaceAll(fmt.Sprintf("%s, %s, %s", w[3], w[1], w[5]), "-", " ")
	i := slices.IndexFunc(groups, func(g picture.Group) bool { return g.Name == name })
	if i < 0 {
		groups, i = append(groups, picture.Group{Name: name, Better: picture.BetterOf(w[5])}), len(groups)
	}
	groups[i].Bars = append(groups[i].Bars, picture.Bar{Name: w[2], Value: v, Ours: isOurs(w[2])})
	return groups
}

// isOurs reports whether a figure is Skep's and not a peer's.
func isOurs(name string) bool {
	return slices.Contains([]string{"", "linux", "wine", "bee", "skep", "entry", "load", "rewrite", "wall",
		"user", "kernel", "direct", "together", "task"}, name) || strings.HasPrefix(name, "o2g") ||
		strings.HasPrefix(name, "direct-") || strings.HasPrefix(name, "skep-")
}
