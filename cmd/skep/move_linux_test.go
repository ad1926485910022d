// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/hub"
	"skep/internal/cli"
)

// serveControl answers requests of this user's commands as a hub, and returns the state
// directory and what was asked.
func serveControl(t *testing.T, answers map[string]string) (state string, asked func() string) {
	t.Helper()
	state, err := os.MkdirTemp("", "control") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	if err := os.Mkdir(hubState(state), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", hub.ControlSocket(hubState(state)))
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan string, 100)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		name := r.Method + " " + r.URL.Path
		requests <- strings.TrimSpace(fmt.Sprintf("%s %s", name, body))
		answer, ok := answers[name]
		if !ok {
			http.NotFound(w, r)
		}
		io.WriteString(w, answer)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return state, func() string {
		if len(requests) == 0 {
			return ""
		}
		return <-requests
	}
}

// What the commands about movable programs ask the hub, and what they print.
func TestMoveWords(t *testing.T) {
	const job = `{"job":"j1","program":"work","node":"b","state":"running","began":"2000-01-02T03:04:05Z","moves":2,"pause_ns":1234567890,"bytes":2500000}`
	state, asked := serveControl(t, map[string]string{
		"GET /v1/jobs": "[" + job + "]", "POST /v1/jobs/j1/move": job, "POST /v1/jobs/j1/checkpoint": job,
	})
	for _, c := range []struct{ line, out, asked, text string }{
		{"move", "JOB  NODE  STATE    MOVES  SINCE", "GET /v1/jobs", ""},
		{"move", "j1   b     running  2      ", "GET /v1/jobs", ""},
		{"move --json", `"pause_ns": 1234567890`, "GET /v1/jobs", ""},
		{"move j1", "job j1 runs on b; it stood still for 1234 ms, and 2.5 MB were sent\n", `POST /v1/jobs/j1/move {"node":""}`, ""},
		{"move j1 b", "job j1 runs on b; it stood still for 1234 ms, and 2.5 MB were sent\n", `POST /v1/jobs/j1/move {"node":"b"}`, ""},
		{"move --json j1", `"moves": 2`, `POST /v1/jobs/j1/move {"node":""}`, ""},
		{"checkpoint j1", "job j1 was saved; it stood still for 1234 ms, and 2.5 MB were sent\n", `POST /v1/jobs/j1/checkpoint {"node":""}`, ""},
		{"move j2", "", `POST /v1/jobs/j2/move {"node":""}`, "404"},
		{"checkpoint j2", "", `POST /v1/jobs/j2/checkpoint {"node":""}`, "404"},
		{"move j1 b c", "", "", `"c" is not expected`},
		{"checkpoint", "", "", "a job is expected: skep move lists them"},
		{"checkpoint j1 b", "", "", `"b" is not expected`},
	} {
		out, code, text := outputOf(t, append(strings.Fields(c.line), "--state", state)...)
		if !strings.Contains(out, c.out) || (c.out == "") != (out == "") || asked() != c.asked || (code != 0) != (c.text != "") || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %q %s", c.line, code, out, text)
		}
	}
	for _, line := range []string{"move", "move j1", "checkpoint j1"} {
		out, code, text := outputOf(t, append(strings.Fields(line), "--state", filepath.Join(state, "none"))...)
		if code != cli.Unreachable || out != "" || !strings.Contains(text, "no hub runs") {
			t.Errorf("%s without a hub: %d %q %s", line, code, out, text)
		}
	}
}
