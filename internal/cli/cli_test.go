// SPDX-License-Identifier: MIT

package cli

import (
	"errors"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{errors.New("broke"), 1, "broke"},
		{Errorf(Refused, "no"), 4, "no"},
		{fmt.Errorf("outer: %w", Errorf(Unreachable, "no hub")), 3, "outer: no hub"},
		{fmt.Errorf("x: %w", Exit(42)), 42, ""},
		{WithCode(Usage, nil), 0, ""},
		{WithCode(Usage, errors.New("odd")), 2, "odd"},
	} {
		if code, text := ExitCode(c.err); code != c.code || text != c.text {
			t.Errorf("Code(%v) = %d %q, want %d %q", c.err, code, text, c.code, c.text)
		}
	}
}

func testFlags() (f *Flags, token *string, slots *int) {
	f = NewFlags("join", "join HOST:PORT --token T")
	return f, f.String("token", "", ""), f.Int("slots", 0, "")
}

func TestFlagsAnyOrder(t *testing.T) {
	for _, line := range []string{"h:1 --token T --slots 3", "--token T h:1 --slots=3", "--slots 3 -token T h:1", "--slots 3 --token T -- h:1"} {
		f, token, slots := testFlags()
		words, err := f.Parse(strings.Fields(line))
		if err != nil || !reflect.DeepEqual(words, []string{"h:1"}) || *token != "T" || *slots != 3 {
			t.Errorf("%s: words %q token %q slots %d: %v", line, words, *token, *slots, err)
		}
	}
	f, _, _ := testFlags()
	words, err := f.Parse([]string{"a", "--", "--token", "b"})
	if err != nil || !reflect.DeepEqual(words, []string{"a", "--token", "b"}) {
		t.Errorf("after --: %q %v", words, err)
	}
}

func TestFlagsCommand(t *testing.T) {
	for _, line := range []string{"--slots 1 -- ./p --slots 2", "--slots 1 ./p --slots 2"} {
		f, _, slots := testFlags()
		words, err := f.ParseCommand(strings.Fields(line))
		if err != nil || *slots != 1 || !reflect.DeepEqual(words, []string{"./p", "--slots", "2"}) {
			t.Errorf("%s: %q slots %d: %v", line, words, *slots, err)
		}
	}
}

func TestFlagsWrong(t *testing.T) {
	for _, line := range []string{"--nonsense", "--slots many", "--token"} {
		f, _, _ := testFlags()
		_, err := f.Parse(strings.Fields(line))
		code, text := ExitCode(err)
		if code != Usage || strings.Contains(text, "\n") || strings.Contains(text, "usage") {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
	// Who misses the words of a command needs its usage.
	f, _, _ := testFlags()
	if code, text := ExitCode(f.RefuseArgs([]string{"50%"})); code != Usage || !strings.HasPrefix(text, `join: "50%" is not expected; usage: skep join`) {
		t.Errorf("a word too many: %d %q", code, text)
	}
	if _, err := f.Parse([]string{"--help"}); err != flag.ErrHelp {
		t.Errorf("--help gives %v", err)
	}
}

func TestFlagsSayWhatTheyWant(t *testing.T) {
	for line, want := range map[string]string{
		"-n":                      "-n expects a value",
		"--expires":               "--expires expects a value",
		"--expires soon":          `--expires "soon": want a time, as 500ms, 90s or 24h`,
		"-n many":                 `-n "many": want a whole number`,
		"-n 99999999999999999999": `-n "99999999999999999999": want a whole number`,
		"--json=perhaps":          `--json "perhaps": want no value, or =false`,
		"--share all":             `--share "all": want a number`,
		"--ranks x":               `--ranks "x": want 1 or more`,
		"-x":                      "there is no option -x: 'skep do --help' lists them",
		"--frob=1":                "there is no option --frob: 'skep do --help' lists them",
	} {
		f := NewFlags("do", "do IT")
		f.Int("n", 0, "")
		f.Duration("expires", 0, "")
		f.Bool("json", false, "")
		f.Float64("share", 0, "")
		f.Func("ranks", "", func(string) error { return errors.New("want 1 or more") })
		_, err := f.Parse(strings.Fields(line))
		if code, text := ExitCode(err); code != Usage || text != "do: "+want {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

func TestFlagsGiven(t *testing.T) {
	f, _, _ := testFlags()
	if _, err := f.Parse([]string{"--token", ""}); err != nil || !f.Given("token") || f.Given("slots") {
		t.Errorf("token is given %v, slots %v: %v", f.Given("token"), f.Given("slots"), err)
	}
}

func TestTable(t *testing.T) {
	table := NewTable("NAME", "OS", "LAST")
	table.Row("väter", "linux", 3)
	table.Row("b\x1b[2J", "w", "")
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "NAME   OS     LAST\nväter  linux  3\nb?[2J  w\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestCleanText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"node-1: Zürich, 日本 (50 %)", "node-1: Zürich, 日本 (50 %)"},
		{"a\x1b[2J\nb\r\x00\x7f", "a?[2J?b???"},
		{"a\u009bm", "a?m"},             // CSI in one character
		{"a\u202etxt.exe", "a?txt.exe"}, // what follows would read from right to left
		{"a\u2028b\u200bc", "a?b?c"},
		{"a\xffb\ufffd", "a?b?"},
	} {
		if got := CleanText(c.text); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 12345: "12 kB", 999999: "1.0 MB", 55e6: "55 MB", 18e18: "18 EB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "4096": 4096, "4k": 4096, "512M": 512 << 20, "2G": 2 << 30} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1KB", "1MM", "99999999999G", "1.5G", "0x10"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestProgress(t *testing.T) {
	var out strings.Builder
	p := &Progress{out: &out, width: 10, begin: time.Now().Add(-time.Hour)}
	p.Set([]string{"node a, a long line", "b"})
	p.PrintAbove("said\n")
	p.Done()
	want := "node a, a\nb\n" + "\r\x1b[A\x1b[A\x1b[J" + "said\n" + "node a, a\nb\n" + "\r\x1b[A\x1b[A\x1b[J"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	p = &Progress{out: &out, begin: time.Now().Add(-time.Hour)}
	p.Set([]string{"x"})
	p.Done()
	if out.String() != "" {
		t.Errorf("no terminal, but it prints %q", out.String())
	}
}

// Text of other programs is printed above the lines of progress, which are redrawn at the
// end of its line.
func TestProgressBelowOthers(t *testing.T) {
	const erased = "\r\x1b[A\x1b[J"
	var out strings.Builder
	p := &Progress{out: &out, width: 10, begin: time.Now().Add(-time.Hour)}
	p.Set([]string{"node"})
	for _, text := range []string{"one\n", "more", "?", " yes\n"} {
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	p.Write([]byte("half"))
	p.PrintAbove("said\n")
	p.Hide()
	p.last = p.begin
	p.Set([]string{"unseen"})
	p.Write([]byte("two\n"))
	want := "node\n" + erased + "one\nnode\n" + erased + "more? yes\nnode\n" + erased + "half\nsaid\nnode\n" + erased + "two\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
