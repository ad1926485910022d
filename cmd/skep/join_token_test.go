// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

// Every user can read a token on the command line, so there are three other ways to give
// it.
func TestTokenSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("  skep1.file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, variable, input, want string
		args                        []string
	}{
		{name: "none"},
		{name: "option", args: []string{"--token", "skep1.option"}, variable: "skep1.env", want: "skep1.option"},
		{name: "file", args: []string{"--token-file", file}, variable: "skep1.env", want: "skep1.file"},
		{name: "standard input", args: []string{"--token-file", "-"}, input: "skep1.input\n", want: "skep1.input"},
		{name: "a whole line", args: []string{"--token-file", "-"}, input: "skep join h:1 --token skep1.line\n", want: "skep1.line"},
		{name: "a whole line of today", args: []string{"--token-file", "-"}, input: "SKEP_TOKEN=skep1.line skep join h:1\n", want: "skep1.line"},
		{name: "environment", variable: "skep1.env", want: "skep1.env"},
		{name: "environment of cmd.exe", variable: "skep1.env ", want: "skep1.env"},
		{name: "empty input", args: []string{"--token-file", "-"}, want: "error: holds no token"},
		{name: "two words", args: []string{"--token-file", "-"}, input: "a b", want: "error: holds no token"},
		{name: "no such file", args: []string{"--token-file", file + ".gone"}, want: "error: no such file"},
		{name: "both", args: []string{"--token", "x", "--token-file", "-"}, want: "error: take one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(tokenVariable, tt.variable)
			var j join
			f := cli.NewFlags("join", "join")
			f.SetOutput(io.Discard)
			j.options(f)
			if _, err := f.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			got, err := readToken(f, j.token, j.tokenFile, strings.NewReader(tt.input))
			if err != nil {
				got = "error: " + err.Error()
			}
			want, refused := strings.CutPrefix(tt.want, "error: ")
			if got != tt.want && !(refused && err != nil && strings.Contains(got, want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if os.Getenv(tokenVariable) != "" {
				t.Error("the token is left in the environment of what the agent starts")
			}
		})
	}
}
