// SPDX-License-Identifier: MIT

package cli

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"nodes", "run", "update", "logs", "lab", "up"}
	for word, want := range map[string]string{
		"noeds": "nodes", "node": "nodes", "nodesxx": "nodes", "rnu": "run", "updxte": "update",
		"lobs":   "logs",
		"lag":    "lab",
		"la":     "",       // half of the word
		"lbs":    "",       // two changes of three letters
		"uptade": "update", // two changes
		"hello":  "",
		"":       "",
		"x":      "",
		"nodes":  "nodes",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%q: %q instead of %q", word, got, want)
		}
	}
	if got := Nearest("abcd", []string{"abce", "abcf"}); got != "" {
		t.Errorf("two are equally near: %q", got)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"ca", "ac", 1}, {"abcdef", "badcfe", 3}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d instead of %d", c.a, c.b, got, c.want)
		}
	}
}
