// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"os"
	"testing"

	"skep/internal/cli"
)

// outputOf runs a command line and returns its output.
func outputOf(t *testing.T, words ...string) (out string, code int, text string) {
	t.Helper()
	out = printedBy(t, &os.Stdout, func() { code, text = cli.ExitCode(dispatch(t.Context(), words)) })
	return out, code, text
}

// printedBy returns what do writes to one of the standard streams.
func printedBy(t *testing.T, stream **os.File, do func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "printed")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old := *stream
	*stream = file
	defer func() { *stream = old }()
	do()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
