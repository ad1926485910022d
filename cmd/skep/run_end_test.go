// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"skep/grid/hub"
)

// A mortalHub is the control socket of a hub that answers the end of a run and is killed
// before the run's events are over, and of the hub that is started after it.
type mortalHub struct {
	t      *testing.T
	path   string
	server *http.Server
	asked  chan string
}

// start serves one hub. If it is the last one, the run's events end when it is asked.
func (m *mortalHub) start(last bool) {
	listener, err := net.Listen("unix", m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	end := make(chan struct{}, 1)
	stream := func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(hub.Event{Type: "session", State: "open", Text: "key", Socket: "/socket"})
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/runs", stream)
	mux.HandleFunc("POST /v1/runs/key/again", stream)
	server := &http.Server{Handler: mux}
	mux.HandleFunc("POST /v1/runs/key/end", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if last {
			m.asked <- "the second hub"
			end <- struct{}{}
			return
		}
		w.(http.Flusher).Flush()
		m.asked <- "the first hub"
	})
	m.server = server
	go server.Serve(listener)
}

// A master looks for another hub for as long as a hub keeps its run.
func TestMasterKnowsHowLongItsRunIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	err := (&run{}).startMaster(t.Context(), "/bin/sh", []string{"sh", "-c", `echo "$SKEP_KEEP_RUNS" >"$0"`, out}, "none", 5*time.Minute, newWatch(os.Stderr))
	if text, _ := os.ReadFile(out); err != nil || string(text) != "300\n" {
		t.Errorf("%v, %q", err, text)
	}
}

// A hub that is killed after it was asked to end a run leaves it to the next one, which is
// asked too: otherwise `skep run` would wait for ever.
func TestRunEndsOverHubs(t *testing.T) {
	m := &mortalHub{t: t, path: filepath.Join(t.TempDir(), "s"), asked: make(chan string, 2)}
	m.start(false)
	c := hub.NewClient(m.path)
	_, events, err := c.Run(t.Context(), hub.RunRequest{Name: "master"})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(os.Stderr)
	defer w.close()
	shown, again := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(shown)
		w.followRun(c, events, again)
	}()
	ended := make(chan error)
	go func() { ended <- endStream(events, shown, again) }()
	if by := <-m.asked; by != "the first hub" {
		t.Fatal(by)
	}
	m.server.Close()
	m.start(true)
	defer func() { m.server.Close() }()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if by := <-m.asked; by != "the second hub" {
		t.Fatal(by)
	}
}
