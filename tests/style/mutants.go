// SPDX-License-Identifier: MIT

package main

import (
	"path/filepath"
	"strings"

	"skep/tests/mutants/mutate"
)

const equalTable = "tests/mutants/equal.tbl"

// checkEqual holds the table of mutants without effect to the lines that it is about. A
// change near such a line makes its entry stale, and `make mutants` runs in no room then.
func checkEqual(t *tree) ([]string, error) {
	list, err := mutate.ReadEqual(filepath.Join(t.root, equalTable))
	if err == nil {
		err = mutate.CheckEqual(t.root, equalTable, list)
	}
	if err != nil {
		return strings.Split(err.Error(), "\n"), nil
	}
	return nil, nil
}
