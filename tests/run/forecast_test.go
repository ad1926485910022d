// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// plantResults writes a file of results that is some hours old.
func plantResults(t *testing.T, dir, name string, hours int, counts map[string]int) {
	t.Helper()
	all := []result{{suite: "planted", name: "a", status: failed, reason: "x"}, {suite: "planted", name: "g", status: grouped}}
	for suite, n := range counts {
		for i := range n {
			all = append(all, result{suite: suite, name: fmt.Sprint(i), status: passed})
		}
	}
	path := filepath.Join(dir, name)
	if err := writeResults(path, all); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Duration(hours) * time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

// The newest result of each suite counts, of whatever run, and only suites of the list.
func TestForecast(t *testing.T) {
	list := []suite{{name: "planted"}, {name: "b"}, {name: "never"}}
	for _, tt := range []struct {
		name  string
		files []map[string]int // the oldest first
		want  int
	}{
		{"no run", nil, 0},
		{"one run", []map[string]int{{"b": 7, "planted": 3}}, 10},
		{"a suite ran again alone and passed more", []map[string]int{{"b": 7, "planted": 3}, {"planted": 9}}, 16},
		{"the whole run is newer", []map[string]int{{"planted": 9}, {"b": 7, "planted": 3}}, 10},
		{"a suite ran again and passed nothing", []map[string]int{{"b": 7, "planted": 3}, {"b": 8}}, 8},
		{"a suite of another target", []map[string]int{{"b": 7}, {"full": 50}}, 7},
	} {
		dir := t.TempDir()
		for i, counts := range tt.files {
			plantResults(t, dir, fmt.Sprintf("%c.tsv", 'z'-i), len(tt.files)-i, counts)
		}
		if n, err := forecastPassed(dir, list); n != tt.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", tt.name, n, err, tt.want)
		}
	}
}

// A run says at its start what it would fail for at its end, and with -forecast it runs nothing.
func TestForecast_start(t *testing.T) {
	floor := writeFile(t, "test 100\n") + ":test"
	for n, want := range map[int]bool{112: false, 113: true} {
		dir := t.TempDir()
		plantResults(t, dir, "results.tsv", 1, map[string]int{"planted": n})
		o := options{logs: dir, tsv: "now.tsv", floor: floor, suites: writeFile(t, plantSuite("tap", "60", "echo 1..1; echo ok 1 - a")+"\n")}
		line := fmt.Sprintf("  floor: %d passed when each suite ran last, %s asks for 100: raise it to %d or so, or run the suites that lost tests\n", n, floor, n-1)
		for _, forecast := range []bool{false, true} {
			o.forecast = forecast
			var out strings.Builder
			ok, err := runAll(o, &reporter{out: &out})
			if err != nil || strings.HasPrefix(out.String(), line) != want || strings.Contains(out.String(), "planted ") == forecast {
				t.Errorf("%d, forecast %v: %v\n%s", n, forecast, err, out.String())
			}
			if forecast && ok == want {
				t.Errorf("%d: the forecast said %v", n, ok)
			}
			plantResults(t, dir, "results.tsv", -1, map[string]int{"planted": n}) // newer than now.tsv
		}
	}
}

// A forecast reads the promises too: a run would refuse to begin.
func TestForecast_spec(t *testing.T) {
	o := options{logs: t.TempDir(), tsv: "now.tsv", floor: writeFile(t, "test 1\n") + ":test", forecast: true,
		suites: writeFile(t, plantSuite("tap", "60", "echo 1..1; echo ok 1 - a")+"\n")}
	for text, want := range map[string]string{
		"**a-1** One.\nHeld by: `planted: a`.\n\n**a-1** Another.\nHeld by: `planted: a`.\n": "promise a-1 is declared twice",
		"**a-1** One.\nHeld by: `planted: * a*`.\n":                                          "only the end of a name may be *",
	} {
		o.spec = writeFile(t, text)
		if _, err := runAll(o, &reporter{out: &strings.Builder{}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
