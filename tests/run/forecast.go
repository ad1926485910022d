// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// forecastFloor says that a whole run would ask for a higher floor, long before such a run
// ends. It returns "" if the floor is high enough as far as the results in the folder show.
func forecastFloor(o options, suites []suite) (string, error) {
	least, err := readFloor(o.floor)
	if err != nil {
		return "", err
	}
	n, err := forecastPassed(o.logs, suites)
	if err != nil || n <= floorCeiling(least) {
		return "", err
	}
	return fmt.Sprintf("floor: %d passed when each suite ran last, %s asks for %d: raise it to %d or so, or run the suites that lost tests",
		n, o.floor, least, floorFor(n)), nil
}

// forecastPassed adds up what each suite passed when it ran last. Suites that never ran add
// nothing, so a whole run passes at least as many, unless tests have gone since.
func forecastPassed(logs string, suites []suite) (int, error) {
	newest := map[string]int{}
	files, err := resultFiles(logs)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		counts := map[string]int{}
		for line := range strings.Lines(string(text)) {
			f := strings.Split(line, "\t")
			if len(f) != 4 {
				continue // cut off by a full disk
			}
			if status(f[2]) == passed {
				counts[f[0]]++
			} else {
				counts[f[0]] += 0 // ran, and perhaps passed nothing
			}
		}
		for name, n := range counts {
			newest[name] = n
		}
	}
	sum := 0
	for _, s := range suites {
		sum += newest[s.name]
	}
	return sum, nil
}

// resultFiles returns the files of results, the oldest first.
func resultFiles(logs string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(logs, "*.tsv"))
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		times[path] = info.ModTime()
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(times[a].Compare(times[b]), strings.Compare(a, b)) })
	return files, nil
}
