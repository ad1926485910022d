// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
)

// tables names the programs in which a gap may be a table, and the symbols of
// functions that are data, each with a reason.
type tables map[string]*tableRow

type tableRow struct {
	once sync.Once
	used bool
}

// readTables reads lines "name: reason".
func readTables(path string) (tables, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := tables{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, reason, _ := strings.Cut(text, ": ")
		if len(reason) < 10 || all[name] != nil {
			return nil, fmt.Errorf("%s:%d: want 'name: reason', each name once", path, n)
		}
		all[name] = &tableRow{}
	}
	return all, lines.Err()
}

// hasReason reports whether the program or symbol has a row.
func (t tables) hasReason(name string) bool {
	row := t[name]
	if row != nil {
		row.once.Do(func() { row.used = true })
	}
	return row != nil
}

func (t tables) unusedRows() (names []string) {
	for name, row := range t {
		if !row.used {
			names = append(names, name)
		}
	}
	return names
}
