// SPDX-License-Identifier: MIT

package mutate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// An Equal is an entry of equal.tbl, which names mutants that change no behaviour, each with the reason:
//
//	MARK FILE REASON
//
// The mark is a digest of the changed line, of its neighbours and of the change. If the line
// changes, the entry becomes stale, and stale entries are errors.
type Equal struct {
	line       int
	mark, file string
	reason     string
}

var equalLine = regexp.MustCompile(`^([0-9a-f]{12}) (\S+) (\S.*)$`)

// ReadEqual reads the table. A missing table is empty.
func ReadEqual(path string) ([]Equal, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var list []Equal
	seen := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := equalLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: want MARK FILE REASON", path, i+1)
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", path, i+1, m[1])
		}
		seen[m[1]] = true
		list = append(list, Equal{i + 1, m[1], m[2], m[3]})
	}
	return list, nil
}

// CheckEqual returns an error if an entry matches no mutation, or more than one.
func CheckEqual(root, path string, list []Equal) error {
	count := map[string]int{}
	read := map[string]bool{}
	var bad []error
	for _, e := range list {
		if !read[e.file] {
			read[e.file] = true
			all, err := Of(root, e.file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for _, m := range all {
				count[m.Mark]++
			}
		}
		switch count[e.mark] {
		case 0:
			bad = append(bad, fmt.Errorf("%s:%d: stale: no line of %s has the mark %s any more; "+
				"take the entry out", path, e.line, e.file, e.mark))
		case 1:
		default:
			bad = append(bad, fmt.Errorf("%s:%d: %d places of %s have the mark %s",
				path, e.line, count[e.mark], e.file, e.mark))
		}
	}
	return errors.Join(bad...)
}

// WithoutEqual removes the mutations that equal.tbl names.
func WithoutEqual(list []Mutation, equal []Equal) []Mutation {
	known := map[string]bool{}
	for _, e := range equal {
		known[e.mark] = true
	}
	var out []Mutation
	for _, m := range list {
		if !known[m.Mark] {
			out = append(out, m)
		}
	}
	return out
}
