// SPDX-License-Identifier: MIT

// Package label has the labels of nodes, and the selectors by which users choose nodes.
package label

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skep/internal/cli"
	"skep/internal/lazy"
)

// Max is the largest number of labels of a node.
const Max = 32

// termsMax is the largest number of terms of a selector.
const termsMax = 32

var (
	labelForm = lazy.Regexp(`^([a-z][a-z0-9_-]{0,31})=([A-Za-z0-9._-]{1,64})$`)
	termForm  = lazy.Regexp(`^([a-z][a-z0-9_-]{0,31})(!?=|>=)([A-Za-z0-9._-]{1,256})$`)
)

// Keys that every node has, and that no label may have.
var ownKeys = []string{"os", "node", "substrate", "cpus", "memory"}

// Check returns an error unless these can be the labels of a node: KEY=VALUE, where a key may
// have several values.
func Check(labels []string) error {
	if len(labels) > Max {
		return fmt.Errorf("a node has at most %d labels", Max)
	}
	for _, l := range labels {
		m := labelForm().FindStringSubmatch(l)
		if m == nil {
			return fmt.Errorf("%q is no label: write KEY=VALUE, a key of small letters, digits, - and _, and a value of letters, digits, ., - and _", l)
		}
		if slices.Contains(ownKeys, m[1]) {
			return fmt.Errorf("%q is no label: each node has %s by itself", l, m[1])
		}
	}
	return nil
}

// A Node is what selectors know of a node.
type Node struct {
	Name, ID, OS, Substrate string
	CPUs                    int
	Memory                  uint64 // bytes
	Labels                  []string
}

// A Selector chooses nodes: those for which each of its terms holds. The zero value chooses all.
type Selector struct {
	text  string
	terms []term
}

// A term is KEY=VALUE, KEY!=VALUE or KEY>=NUMBER.
type term struct {
	key, op, value string
	least          uint64
}

// Parse reads any and all, which choose every node, or terms with commas between them.
func Parse(text string) (Selector, error) {
	s := Selector{text: text}
	if text == "any" || text == "all" {
		return s, nil
	}
	words := strings.Split(text, ",")
	if len(words) > termsMax {
		return Selector{}, fmt.Errorf("a selector has at most %d terms", termsMax)
	}
	for _, word := range words {
		t, err := parseTerm(word)
		if err != nil {
			return Selector{}, fmt.Errorf("%q is not a selector: %w", text, err)
		}
		s.terms = append(s.terms, t)
	}
	return s, nil
}

func parseTerm(word string) (t term, err error) {
	m := termForm().FindStringSubmatch(word)
	if m == nil {
		return t, fmt.Errorf("give any, all, or terms with commas between them: os=NAME, node=NAME, substrate=NAME, cpus>=N, memory>=SIZE or a label KEY=VALUE; != instead of = excludes")
	}
	t = term{key: m[1], op: m[2], value: m[3]}
	counted := t.key == "cpus" || t.key == "memory"
	switch {
	case counted != (t.op == ">="):
		return t, fmt.Errorf("%s: cpus and memory are compared by >=, everything else by = or !=", word)
	case t.key == "cpus":
		if t.least, err = strconv.ParseUint(t.value, 10, 31); err != nil {
			return t, fmt.Errorf("%s: want a number", word)
		}
	case t.key == "memory":
		if t.least, err = cli.ParseBytes(t.value); err != nil {
			return t, err
		}
	}
	return t, nil
}

// String is the text of the selector.
func (s Selector) String() string {
	if s.text == "" {
		return "all"
	}
	return s.text
}

// IsAll reports whether the selector chooses every node.
func (s Selector) IsAll() bool { return len(s.terms) == 0 }

// Matches reports whether each term holds for n.
func (s Selector) Matches(n *Node) bool {
	return !slices.ContainsFunc(s.terms, func(t term) bool { return !t.holds(n) })
}

func (t *term) holds(n *Node) bool {
	switch t.key {
	case "cpus":
		return n.CPUs > 0 && uint64(n.CPUs) >= t.least
	case "memory":
		return n.Memory >= t.least
	}
	return t.isEqual(n) == (t.op == "=")
}

func (t *term) isEqual(n *Node) bool {
	switch t.key {
	case "os":
		return n.OS == t.value
	case "node":
		return n.Name == t.value || n.ID == t.value
	case "substrate":
		return n.Substrate == t.value
	}
	return slices.Contains(n.Labels, t.key+"="+t.value)
}
