// SPDX-License-Identifier: MIT

// Package mutate lists the places where code may be changed, one at a time, and
// chooses among them by hash.
package mutate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// A Mutation replaces the bytes from..to of one file.
type Mutation struct {
	File     string // relative to the top of the tree
	Line     int
	Mark     string // its mark in equal.tbl
	col      int
	from, to int
	old, new string
}

// String describes a mutation in one line.
func (m Mutation) String() string {
	return fmt.Sprintf("%s:%d: %s -> %s", m.File, m.Line, Shorten(m.old), Shorten(m.new))
}

// ID identifies a mutation. The order of the choice depends on it.
func (m Mutation) ID() string {
	return fmt.Sprintf("%s:%d:%d: %s -> %s", m.File, m.Line, m.col, Shorten(m.old), Shorten(m.new))
}

// Shorten formats code as one short line.
func Shorten(code string) string {
	s := strings.Join(strings.Fields(code), " ")
	if len(s) > 70 {
		s = s[:67] + "..."
	}
	if s == "" {
		return "(nothing)"
	}
	return s
}

// Apply returns the text of the file with the change.
func (m Mutation) Apply(text []byte) []byte {
	var out []byte
	out = append(out, text[:m.from]...)
	out = append(out, m.new...)
	return append(out, text[m.to:]...)
}

// markOf returns a digest of the changed line, its neighbours and the change. It stays the
// same if the line moves, and differs if the line changes.
func (m Mutation) markOf(lines []string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", m.File)
	for i := m.Line - 2; i <= m.Line; i++ {
		if i >= 0 && i < len(lines) {
			fmt.Fprintf(h, "%s\n", strings.TrimSpace(lines[i]))
		}
	}
	at := 0
	if m.Line <= len(lines) {
		line := lines[m.Line-1]
		at = m.col - 1 - (len(line) - len(strings.TrimLeft(line, " \t")))
	}
	fmt.Fprintf(h, "%d\n%s\n%s\n", at, m.old, m.new)
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Of returns all mutations of one file; the suffix selects the language.
func Of(root, name string) ([]Mutation, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	var list []Mutation
	if strings.HasSuffix(name, ".go") {
		list, err = goMutations(name, text)
	} else {
		list = cMutations(name, text)
	}
	lines := strings.Split(string(text), "\n")
	for i := range list {
		list[i].Mark = list[i].markOf(lines)
	}
	return list, err
}

// Choose sorts mutations by the hash of the seed and of each one's id, so that no person
// makes the choice.
func Choose(seed string, list []Mutation) []Mutation {
	key := make(map[string]string, len(list))
	out := make([]Mutation, 0, len(list))
	for _, m := range list {
		if key[m.ID()] == "" {
			sum := sha256.Sum256([]byte(seed + m.ID()))
			key[m.ID()] = hex.EncodeToString(sum[:])
			out = append(out, m)
		}
	}
	sort.Slice(out, func(i, j int) bool { return key[out[i].ID()] < key[out[j].ID()] })
	return out
}

// Product reports whether a file is code of a room and not a test.
func Product(name string) bool {
	for _, part := range strings.Split(filepath.Dir(name), "/") {
		if part == "test" || part == "testdata" || part == "fuzz" {
			return false
		}
	}
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".c", ".h":
		return true
	}
	return false
}
