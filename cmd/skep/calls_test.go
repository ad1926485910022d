// SPDX-License-Identifier: MIT

package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"skep/grid/hub"
	"skep/internal/cli"
)

// The commands about calls, with a hub that has none, without a hub, and with wrong words.
func TestCallCommands(t *testing.T) {
	dir, err := os.MkdirTemp("", "calls") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, c := range []struct{ line, want string }{
		{"cancel", "give the number of a call, or --session"},
		{"cancel 1 --session a", "give the number of a call, or --session"},
		{"cancel 0", `"0" is not the number of a call`},
		{"cancel 18446744073709551616", "is not the number of a call"},
		{"cancel 1 2", `"2" is not expected`},
		{"calls a b", `"b" is not expected`},
		{"ledger x", `"x" is not the number of a call`},
		{"ledger --last 0", "--last 0 is not a number from 1 to 10000"},
		{"ledger --last 10001", "--last 10001 is not a number"},
	} {
		if _, code, text := outputOf(t, append(strings.Fields(c.line), "--state", dir)...); code != cli.Usage || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", c.line, code, text)
		}
	}
	for _, line := range []string{"calls", "cancel 7", "cancel --session a", "ledger"} {
		if _, code, text := outputOf(t, append(strings.Fields(line), "--state", dir)...); code != cli.Unreachable || !strings.Contains(text, "no hub runs") {
			t.Errorf("%s without a hub: %d %s", line, code, text)
		}
	}
	h, err := hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, c := range []struct {
		line, out, text string
		code            int
	}{
		{"calls", "CALL  FUNCTION  STATE  NODE  RUN  ARGUMENTS  SINCE  PROGRAM  USER  SESSION\n", "", 0},
		{"calls --json", "{\n  \"all\": 0,\n  \"calls\": []\n}\n", "", 0},
		{"ledger", "TIME  CALL  STATE  NODE  TEXT  SESSION\n", "", 0},
		{"ledger --json", "[]\n", "", 0},
		{"calls nobody", "", `no open session begins with "nobody"`, cli.Failed},
		{"cancel 7", "", "no call that has not ended has the number 7", cli.Failed},
		{"cancel --session nobody", "", `no open session begins with "nobody"`, cli.Failed},
		{"ledger 7", "", "have none of call 7", cli.Failed},
	} {
		out, code, text := outputOf(t, append(strings.Fields(c.line), "--state", dir)...)
		if out != c.out || code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %q %s", c.line, code, out, text)
		}
	}
}
