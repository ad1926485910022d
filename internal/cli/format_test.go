// SPDX-License-Identifier: MIT

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFormatAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands
		for ago, want := range map[time.Duration]string{
			0: "now", 5*time.Second - 1: "now", 5 * time.Second: "5 s ago", time.Minute - 1: "59 s ago", time.Minute: "1 min ago",
			time.Hour - 1: "59 min ago", time.Hour: "1 h ago", 48*time.Hour - 1: "47 h ago",
			48 * time.Hour: time.Now().Add(-48 * time.Hour).Local().Format(time.DateOnly), -time.Hour: "now",
		} {
			if got := FormatAgo(time.Now().Add(-ago)); got != want {
				t.Errorf("%v ago: %q, not %q", ago, got, want)
			}
		}
		if got := FormatAgo(time.Time{}); got != "never" {
			t.Errorf("%q", got)
		}
	})
}

func TestPrintJSON(t *testing.T) {
	var b strings.Builder
	if err := PrintJSON(&b, map[string]any{"a": "<&>", "b": []int{}}); err != nil || b.String() != "{\n  \"a\": \"<&>\",\n  \"b\": []\n}\n" {
		t.Errorf("%v: %q", err, b.String())
	}
	if err := PrintJSON(&b, func() {}); err == nil {
		t.Error("a function is no JSON")
	}
}

func TestOptionValues(t *testing.T) {
	f := NewFlags("x", "x")
	f.Bool("quiet", false, "")
	f.String("name", "", "")
	for option, want := range map[string]int{"quiet": 0, "name": 1, "none": -1} {
		if got := f.Values(option); got != want {
			t.Errorf("--%s has %d values, not %d", option, got, want)
		}
	}
}

func TestStateDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("LOCALAPPDATA is the folder there")
	}
	home := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, c := range []struct{ own, xdg, want string }{
		{"", "", filepath.Join(home, ".local/state/skep")},
		{"", "relative", filepath.Join(home, ".local/state/skep")},
		{"", "/xdg", "/xdg/skep"},
		{"/own", "/xdg", "/own"},
		{"own", "/xdg", filepath.Join(here, "own")},
	} {
		t.Setenv(StateVariable, c.own)
		t.Setenv("XDG_STATE_HOME", c.xdg)
		if got, err := StateDir(); err != nil || got != c.want {
			t.Errorf("%q, %q: %s, %v", c.own, c.xdg, got, err)
		}
	}
	t.Setenv(StateVariable, "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if got, err := StateDir(); err == nil || !strings.Contains(err.Error(), "give --state DIR or set "+StateVariable) {
		t.Errorf("without a home: %s, %v", got, err)
	}
}

// A table that cannot be written says so.
func TestTableThatIsNotWritten(t *testing.T) {
	broken := errors.New("the disk is full")
	if err := NewTable("A").Write(brokenWriter{broken}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
