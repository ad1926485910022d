// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// readings returns the given lists one after the other, and the last again and again.
func readings(lists ...[]launch.Endpoint) func() []launch.Endpoint {
	n := 0
	return func() []launch.Endpoint {
		list := lists[min(n, len(lists)-1)]
		n++
		return list
	}
}

// runTop runs a top over ticks of two seconds, and returns what it printed.
func runTop(t *testing.T, top *o2gTop, ticks int) string {
	t.Helper()
	var out strings.Builder
	top.out, top.count = &out, ticks
	began := time.Unix(1000, 0)
	clock := make(chan time.Time, ticks)
	for i := range ticks {
		clock <- began.Add(time.Duration(i+1) * 2 * time.Second)
	}
	if err := top.follow(t.Context(), clock, began); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func oneEndpoint(pid int, sent uint64) launch.Endpoint {
	links, resent := uint32(3), uint64(5)
	return launch.Endpoint{PID: pid, ID: string(rune('a' + pid)), Program: "app", Engine: "user", Sent: sent, Links: &links, Resent: &resent}
}

// Rates of two endpoints and their sum; one that ends is shown once more, and then none.
func TestTopShowsRatesAndEnds(t *testing.T) {
	kernel := launch.Endpoint{PID: 2, ID: "k", Program: "app", Engine: "kernel", Received: 9}
	out := runTop(t, &o2gTop{read: readings(
		[]launch.Endpoint{oneEndpoint(1, 10), kernel},
		[]launch.Endpoint{oneEndpoint(1, 30), kernel},
		[]launch.Endpoint{oneEndpoint(1, 31)},
		[]launch.Endpoint{oneEndpoint(1, 31)},
		nil)}, 5)
	tables := strings.Split(strings.TrimSuffix(out, "\n\n"), "\n\n")
	if len(tables) != 5 {
		t.Fatalf("%d tables:\n%s", len(tables), out)
	}
	for i, want := range [][]string{
		{"1 app user 3 10 0 B", "5 0\n", "2 app kernel - 0 0 B", "- 9\n", "all 10 0 B"},
		{"1 app user 3 0.5", "2 app kernel ended"},
		{"1 app user 3 0 0 B"},
		{"1 app user ended"},
		{"no endpoint of this user is open here"},
	} {
		text := ""
		for line := range strings.Lines(tables[i] + "\n") {
			text += strings.Join(strings.Fields(line), " ") + "\n"
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("table %d lacks %q:\n%s", i, w, text)
			}
		}
	}
	if strings.Contains(tables[2], "kernel") {
		t.Errorf("an endpoint that ended is shown again:\n%s", tables[2])
	}
}

// On a terminal, lines are cut to its width and tables to its height.
func TestTopFitsTheTerminal(t *testing.T) {
	var list []launch.Endpoint
	for pid := range 20 {
		list = append(list, oneEndpoint(pid+1, 0))
	}
	out := runTop(t, &o2gTop{read: readings(list), display: display{30, 10}}, 1)
	text, found := strings.CutPrefix(out, "\x1b[H\x1b[J")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !found || len(lines) != 9 || lines[8] != "... and 14 more" {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	for _, line := range lines {
		if len(line) > 29 {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
}

// Each reading is one line of JSON, also without an endpoint.
func TestTopJSON(t *testing.T) {
	out := runTop(t, &o2gTop{json: true, display: display{columns: 20, rows: 5}, read: readings([]launch.Endpoint{oneEndpoint(1, 10)}, []launch.Endpoint{oneEndpoint(1, 14)}, []launch.Endpoint{})}, 3)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 3 {
		t.Fatal(out)
	}
	for i, want := range []struct {
		rates int
		rate  float64
		ended bool
	}{{1, 2, false}, {1, 0, true}, {0, 0, false}} {
		var got struct {
			Seconds   float64       `json:"seconds"`
			Endpoints []launch.Rate `json:"endpoints"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Seconds != 2 || got.Endpoints == nil || len(got.Endpoints) != want.rates {
			t.Errorf("line %d: %s", i, lines[i])
		} else if want.rates > 0 && (got.Endpoints[0].SentRate != want.rate || got.Endpoints[0].Ended != want.ended) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
}

// Ctrl-C ends it without an error, a full disk with one.
func TestTopEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	top := &o2gTop{read: readings(nil), out: os.Stdout}
	if err := top.follow(ctx, make(chan time.Time), time.Now()); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	top.out = full
	tick := make(chan time.Time, 1)
	tick <- time.Now()
	if err := top.follow(t.Context(), tick, time.Now()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

func TestTopRefusesArguments(t *testing.T) {
	for _, c := range []struct{ line, words string }{
		{"", "status or top"}, {"top more", "status or top"}, {"tops", "status or top"},
		{"top --interval 0", "0.1 to 3600"}, {"top --interval NaN", "0.1 to 3600"}, {"top --interval 1h", "0.1 to 3600"},
		{"top --count 0", "1 or more"}, {"top --count many", "1 or more"},
		{"status --count 2", "belong to skep o2g top"}, {"status --interval 2", "belong to skep o2g top"},
	} {
		err := dispatch(t.Context(), append([]string{"o2g"}, strings.Fields(c.line)...))
		if code, text := cli.ExitCode(err); code != int(cli.Usage) || !strings.Contains(text, c.words) {
			t.Errorf("o2g %s: %d, %s", c.line, code, text)
		}
	}
}
