// SPDX-License-Identifier: MIT

package cli

// Nearest returns the name that was probably meant: one at an edit distance of at most two
// and of less than half the word's length. An edit inserts, omits or changes a letter, or
// exchanges two adjacent ones. The result is empty if there is no such name, or if two are
// equally near.
func Nearest(word string, names []string) string {
	limit := min(2, (len(word)-1)/2)
	found, least, ties := "", limit+1, 0
	for _, name := range names {
		switch d := distance(word, name); {
		case d < least:
			found, least, ties = name, d, 0
		case d == least:
			ties++
		}
	}
	if ties > 0 {
		return ""
	}
	return found
}

// distance returns the restricted Damerau-Levenshtein distance, in bytes.
func distance(a, b string) int {
	before, last, row := []int(nil), []int(nil), make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for k := 1; k <= len(b); k++ {
			changed := last[k-1]
			if a[i-1] != b[k-1] {
				changed++
			}
			row[k] = min(last[k]+1, row[k-1]+1, changed)
			if i > 1 && k > 1 && a[i-1] == b[k-2] && a[i-2] == b[k-1] {
				row[k] = min(row[k], before[k-2]+1)
			}
		}
	}
	return row[len(b)]
}
