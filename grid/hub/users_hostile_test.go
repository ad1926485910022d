// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"skep/grid/proto"
	"skep/grid/sched"
)

// A request for output that asks for a program too gets output and nothing else.
func TestUserLogsRunNothing(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(1)
	m := ada.startMaster()
	m.call(9, nil)
	l := a.nextLease()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ada.cli.Exec(ctx, ExecRequest{Node: a.node.ID(), Logs: true, Session: l.Session[:6], Program: l.Worker.Module, Name: "x",
			Args: []string{"x"}, Env: []string{"A=b"}, Update: "u", Movable: true}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	got := receiveFrom(t, "the request for output", a.execs)
	if want := (proto.Exec{ID: got.ID, Logs: true, Session: l.Session}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	cancel()
	receiveFrom(t, "the end of the request", ended)
}

// Requests that arrive at the same moment do not pass the bounds, nor the end of an account.
func TestBoundsOfUserHoldAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{})
	a := w.startAgent(1)
	for range runsMax {
		if _, err := w.hub.openRun(RunRequest{}, viewer{user: ada.id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.hub.openRunAs(runRecord{Key: "k", User: ada.id}, true); err == nil || !strings.Contains(err.Error(), "64 runs of yours are open") {
		t.Errorf("one more run: %v", err)
	}
	m := eve.startMaster()
	of := runOf(w, eve.id)
	w.hub.mu.Lock()
	for i := range mastersMax - 1 {
		w.hub.masters[sched.SessionID(1<<40+i)] = &master{caller: &caller{user: eve.id}, run: of}
	}
	w.hub.mu.Unlock()
	_, err := w.hub.openMaster(of, m.conn, "x")
	w.hub.mu.Lock()
	for i := range mastersMax - 1 {
		delete(w.hub.masters, sched.SessionID(1<<40+i))
	}
	w.hub.mu.Unlock()
	if err == nil || !strings.Contains(err.Error(), "256 programs of yours run") {
		t.Errorf("one more program: %v", err)
	}
	if err := w.cli.RemoveUser(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.hub.openRunAs(runRecord{Key: "k", User: ada.id}, true); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a run after the end: %v", err)
	}
	if _, err := w.hub.newExec("x", ExecRequest{Node: a.node.ID(), Logs: true}, viewer{user: ada.id}); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("output after the end: %v", err)
	}
}

// A hub that asks a user's machine for another file than a worker program does not get it.
func TestHubReadsOnlyWorkerPrograms(t *testing.T) {
	w := newWorld(t, nil)
	secret := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{secret, "/dev/zero", w.dirs} {
		if path, f, err := openSent([]string{w.dirs}, name); err == nil {
			t.Errorf("%s leaves the machine", path)
			f.Close()
		}
	}
	path, f, err := openSent([]string{w.dirs}, "mod")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != string(want) {
		t.Errorf("%d bytes of %d are sent, %v", len(got), len(want), err)
	}
}

func runOf(w *world, user string) *run {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, r := range w.hub.runs {
		if r.user == user {
			return r
		}
	}
	return nil
}
