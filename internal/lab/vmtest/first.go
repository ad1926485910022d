// SPDX-License-Identifier: MIT

//go:build linux

package vmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"skep/internal/lab"
)

// beganVar holds when `make vm` began, in nanoseconds since 1970.
const beganVar = "SKEP_VM_BEGAN"

// firstRuns is of how many runs the median is told.
const firstRuns = 9

var firstOnce sync.Once

// firstLine notes how long the first line of TAP took from `make vm`, once for
// each run of it.
func firstLine(now time.Time) {
	firstOnce.Do(func() {
		began, err := strconv.ParseInt(os.Getenv(beganVar), 10, 64)
		if err != nil {
			return
		}
		build, err := lab.BuildDir()
		if err != nil {
			return
		}
		table := filepath.Join(build, "lab", ".first-tap.tsv")
		text, err := noteFirst(table, began, now)
		if err == nil && text != "" {
			// make prints it: the runner keeps a good suite's words.
			err = os.WriteFile(strings.TrimSuffix(table, ".tsv"), []byte(text+"\n"), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "vmtest:", err)
		}
	})
}

// noteFirst appends to the file and says how it went, nothing if another suite
// of that run was there before.
func noteFirst(path string, began int64, now time.Time) (string, error) {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	var took []float64
	for line := range strings.Lines(string(old)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if f[0] == strconv.FormatInt(began, 10) {
			return "", nil
		}
		if v, err := strconv.ParseFloat(f[1], 64); err == nil {
			took = append(took, v)
		}
	}
	seconds := now.Sub(time.Unix(0, began)).Seconds()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d\t%.1f\n", began, seconds); err != nil {
		return "", err
	}
	took = append(took, seconds)
	took = took[max(0, len(took)-firstRuns):]
	return fmt.Sprintf("first TAP line after %.1f s; median of the last %d runs %.1f s", seconds, len(took), median(took)), nil
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
