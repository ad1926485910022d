// SPDX-License-Identifier: MIT

package picture

import (
	"slices"
	"strings"
	"testing"
)

// Drawing and erasing work as on a terminal. A character may arrive in two parts.
func TestScreen(t *testing.T) {
	s := &Screen{Columns: 10}
	for _, part := range []string{"one\r\ntwo\r\n", "half \xe2\x80", "\xa6\r\n", "below\r\n", "\r\x1b[A\x1b[J", "\x1b[1mmore than ten\x1b[0m\r\nX\rY"} {
		s.Write([]byte(part))
	}
	want := []string{"one", "two", "half …", "more than", "ten", "Y"}
	if got := s.Text(); !slices.Equal(got, want) {
		t.Errorf("shown is %q, want %q", got, want)
	}
}

// Text is escaped, keeps its columns, and can be read back.
func TestSession(t *testing.T) {
	s := &Screen{Columns: 40}
	s.Write([]byte("$ a <b> & \"c\"\r\n\r\n  end\r\n"))
	var svg strings.Builder
	if err := s.Draw(&svg, "a < b"); err != nil {
		t.Fatal(err)
	}
	got, err := SessionText(strings.NewReader(svg.String()))
	if want := []string{`$ a <b> & "c"`, "end"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: the picture says %q, want %q", err, got, want)
	}
	for _, want := range []string{`<text class="key" x="16.0" y="34"`, `<text x="30.4" y="68" textLength="21.6">`, "<title>a &lt; b</title>"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("no %s in\n%s", want, &svg)
		}
	}
}

// Two runs are equal if they differ only in numbers, units and the width of columns.
func TestShapes(t *testing.T) {
	a := ShapesOf([]string{"node   calls  20 1.13s  66c3fe7f67c19825…", "node   calls  2  870ms  f65b741f7724ea47…", "", "sent 9.4 MB, -1.5e-12"})
	b := ShapesOf([]string{"node calls 7 1m2s 000000000000…", "sent 192 B, 3"})
	if !slices.Equal(a, b) {
		t.Errorf("%q and %q", a, b)
	}
	if c := ShapesOf([]string{"node call 7"}); slices.Equal(b, c) {
		t.Errorf("%q and %q are alike", b, c)
	}
}
