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

	"skep/lab"
)

// Environment variables of `make vm T=...`: its start in nanoseconds since 1970, and the
// value of T.
const (
	beganVar  = "SKEP_VM_BEGAN"
	chosenVar = "SKEP_VM_CHOSEN"
)

// firstRuns is the number of runs whose median is printed.
const firstRuns = 9

// started is about the start of this process.
var started = time.Now()

// first notes the first machine that is up, and then the first line of TAP.
var first struct {
	sync.Mutex
	up   time.Time
	done bool
}

// firstUp is called when a machine is up.
func firstUp(now time.Time) {
	first.Lock()
	defer first.Unlock()
	if first.up.IsZero() {
		first.up = now
	}
}

// noFirst is called if the waiting time includes a wait for another program, so that this run
// is not measured.
func noFirst() {
	first.Lock()
	defer first.Unlock()
	first.done = true
}

// firstLine notes how long the first line of TAP took from `make vm`, once for
// each run of it.
func firstLine(now time.Time) {
	first.Lock()
	defer first.Unlock()
	began, err := strconv.ParseInt(os.Getenv(beganVar), 10, 64)
	if first.done || err != nil {
		return
	}
	first.done = true
	build, err := lab.BuildDir()
	if err != nil {
		return
	}
	r := firstRun{began: time.Unix(0, began), started: started, up: first.up, line: now,
		chosen: strings.Join(strings.Fields(os.Getenv(chosenVar)), "+")}
	if err := r.writeNote(build); err != nil {
		fmt.Fprintln(os.Stderr, "vmtest:", err)
	}
}

// A firstRun is a run of `make vm T=...` up to its first line of TAP.
type firstRun struct {
	chosen                   string
	began, started, up, line time.Time
}

// writeNote writes a text for make to print, because the runner hides the output of a suite
// that passed. make removes the file at its start, and the first suite of a run writes it.
func (r *firstRun) writeNote(build string) error {
	noteFile := filepath.Join(build, "lab", ".first-tap")
	if _, err := os.Stat(noteFile); err == nil {
		return nil
	}
	text := ""
	if module, built := r.builtModule(build); built {
		text = fmt.Sprintf("first TAP line after %s; %s was built, so this does not count", r.formatParts(), module)
	} else {
		var err error
		if text, err = r.appendFigures(noteFile + ".tsv"); err != nil {
			return err
		}
	}
	return os.WriteFile(noteFile, []byte(text+"\n"), 0o644)
}

// builtModule returns a module that was built in this run, which therefore did not begin with
// warm caches.
func (r *firstRun) builtModule(build string) (string, bool) {
	modules, _ := filepath.Glob(filepath.Join(build, "kmod", "*", "*", "*.ko"))
	for _, module := range modules {
		if info, err := os.Stat(module); err == nil && info.ModTime().After(r.began) {
			return filepath.Base(module), true
		}
	}
	return "", false
}

// formatParts describes the parts of the time.
func (r *firstRun) formatParts() string {
	return fmt.Sprintf("%.1f s (make and go test %.1f, machine %.1f, program %.1f)", r.line.Sub(r.began).Seconds(),
		r.started.Sub(r.began).Seconds(), r.up.Sub(r.started).Seconds(), r.line.Sub(r.up).Seconds())
}

// appendFigures appends the figures to the file and returns a summary. The median is that of
// runs of the same suites.
func (r *firstRun) appendFigures(path string) (string, error) {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return "", err
	}
	var took []float64
	for line := range strings.Lines(string(old)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != r.chosen {
			continue
		}
		if v, err := strconv.ParseFloat(f[1], 64); err == nil {
			took = append(took, v)
		}
	}
	seconds := r.line.Sub(r.began).Seconds()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d\t%.1f\t%s\n", r.began.UnixNano(), seconds, r.chosen); err != nil {
		return "", err
	}
	took = append(took, seconds)
	took = took[max(0, len(took)-firstRuns):]
	return fmt.Sprintf("first TAP line after %s; median of the last %d runs of T=%s %.1f s",
		r.formatParts(), len(took), r.chosen, medianOf(took)), nil
}

func medianOf(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
