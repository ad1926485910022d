// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// circleMax is the largest number of modules that may include one another in a circle.
const circleMax = 6

// cCircles looks for modules that include one another in a circle. A module is
// a header with the file that has its stem: a file that includes a.h needs a.c,
// and all that a.c includes.
func cCircles(t *tree) ([]string, error) {
	var bad []string
	for _, circle := range findCircles(t.includeGraph()) {
		if len(circle) > circleMax {
			slices.Sort(circle)
			bad = append(bad, fmt.Sprintf("%s: %d modules include one another, at most %d: %s",
				circle[0], len(circle), circleMax, strings.Join(circle, " ")))
		}
	}
	slices.Sort(bad)
	return bad, nil
}

// includeGraph returns each module's name and the modules that it includes.
func (t *tree) includeGraph() map[string][]string {
	files := t.filesWith(".c", ".h", ".S")
	module := map[string]string{}
	for _, name := range files {
		module[name] = strings.TrimSuffix(name, path.Ext(name))
	}
	included := map[string][]string{}
	for _, name := range files {
		for _, line := range t.lines(name) {
			m := includeLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			target := t.resolveInclude(name, m[1], m[2])
			included[name] = append(included[name], target)
			if implements(name, target) {
				module[target] = module[name]
			}
		}
	}
	graph := map[string][]string{}
	for _, name := range files {
		from := module[name]
		if graph[from] == nil {
			graph[from] = []string{}
		}
		for _, target := range included[name] {
			if to, ok := module[target]; ok && to != from {
				graph[from] = append(graph[from], to)
			}
		}
	}
	return graph
}

// implements reports that a file of a room has the code of a header in the room's include folder: it has the stem of the header and includes it.
func implements(name, header string) bool {
	room, rest, found := strings.Cut(header, "/include/")
	return found && path.Ext(name) == ".c" && isUnder(name, room) &&
		strings.TrimSuffix(path.Base(name), ".c") == strings.TrimSuffix(rest, ".h")
}

// findCircles returns the strongly connected parts of a graph (Tarjan 1972) that
// have more than one member.
func findCircles(graph map[string][]string) [][]string {
	var found [][]string
	var stack []string
	number, low := map[string]int{}, map[string]int{}
	open := map[string]bool{}
	var visit func(v string)
	visit = func(v string) {
		number[v] = len(number) + 1
		low[v] = number[v]
		stack = append(stack, v)
		open[v] = true
		for _, w := range graph[v] {
			if number[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if open[w] {
				low[v] = min(low[v], number[w])
			}
		}
		if low[v] != number[v] {
			return
		}
		at := slices.Index(stack, v)
		part := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, w := range part {
			open[w] = false
		}
		if len(part) > 1 {
			found = append(found, part)
		}
	}
	for v := range graph {
		if number[v] == 0 {
			visit(v)
		}
	}
	return found
}
