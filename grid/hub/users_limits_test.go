// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
)

// The limits of a user hold for all its masters together, and for no other's.
func TestUserLimits(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{Slots: 1, Bytes: 20 << 20})
	a := w.startAgent(4)
	first, second := ada.startMaster(), ada.startMaster()
	used := func() uint64 {
		list, err := ada.cli.Users(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Stored
	}
	programs := used() // which it sent
	if programs == 0 {
		t.Error("worker programs do not count")
	}
	first.call(1, randomBytes(12<<20))
	a.nextLease()
	second.call(2, nil)
	second.call(3, randomBytes(12<<20))
	if e := second.readFailure(3); !strings.Contains(e.Text, "the quota of user ada leaves") || !strings.Contains(e.Text, "skep user set ada --quota") {
		t.Errorf("%q", e.Text)
	}
	own := w.startBoundMaster()
	own.call(7, randomBytes(2<<20))
	if l := a.nextLease(); l.User != "" {
		t.Errorf("the user got another slot: %+v", l.Lease)
	}
	if v, _ := ada.cli.Calls(t.Context(), ""); v.All != 2 {
		t.Errorf("%+v", v)
	}
	more := 2
	if err := w.cli.SetUser(t.Context(), UserRequest{Name: "ada", Slots: &more}); err != nil {
		t.Fatal(err)
	}
	if l := a.nextLease(); l.User != ada.id {
		t.Errorf("a limit that was raised: %+v", l.Lease)
	}
	if u := w.hub.accounts.terms(ada.id); u.Bytes != 20<<20 || u.Slots != 2 {
		t.Errorf("what was not given changed: %+v", u)
	}
	first.conn.Close()
	second.conn.Close()
	waitUntil(t, "nothing is stored for it", func() bool { return used() == 0 })
}

// A user may not open runs without end.
func TestRunsOfUserAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	for range runsMax {
		_, events, err := ada.cli.Run(t.Context(), RunRequest{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { events.Close(); events.Forget() })
	}
	if _, _, err := ada.cli.Run(t.Context(), RunRequest{}); err == nil || !strings.Contains(err.Error(), "64 runs of yours are open") {
		t.Errorf("%v", err)
	}
	if _, err := w.hub.openRun(RunRequest{Dirs: []string{w.dirs}}, operator); err != nil {
		t.Errorf("the operator: %v", err)
	}
	if _, err := w.hub.openRun(RunRequest{Dirs: []string{w.dirs}, Priority: PriorityMax + 1}, operator); err == nil {
		t.Error("a priority beyond all")
	}
}

// Users, their limits, and whose runs and results are whose outlive the hub, and are in a backup.
func TestUsersOutliveTheHub(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Keep = true })
	ada, eve := w.addUser("ada", Terms{Share: 7}), w.addUser("eve", Terms{})
	_, events, err := ada.cli.Run(t.Context(), RunRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Forget()
	key := onlyRun(w)
	if err := w.cli.RemoveUser(t.Context(), "eve"); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(w.hub.records.path(key))
	if err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := w.hub.WriteBackup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"name": "ada"`, `"share": 7`} {
		if !strings.Contains(backup.String(), want) {
			t.Errorf("the backup lacks %s", want)
		}
	}
	w.hub.Close()
	if err := os.WriteFile(w.hub.records.path(key), record, 0o600); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	w.hub.cfg.Listen = w.hub.Address().String()
	next, err := Open(w.hub.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := next.claimRun(key, viewer{user: eve.id}); err == nil {
		t.Error("another user claims the run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	again, err := ada.cli.RunAgain(ctx, events)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if _, err := eve.cli.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "the account eve was removed") {
		t.Errorf("%v", err)
	}
	if list, err := NewClient(next.ControlSocket()).Users(t.Context()); err != nil || len(list) != 2 || list[1].Share != 7 || list[1].Machines != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A hub that closes waits for what its requests still do, such as removing the records of
// runs: the next hub of the directory has these files then.
func TestCloseWaitsForRequests(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Keep = true })
	begun, release, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	handler := w.hub.countHandlers(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-release }))
	go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	<-begun
	go func() { w.hub.Close(); close(closed) }()
	select {
	case <-closed:
		t.Error("the hub closed amid a request")
	case <-time.After(time.Second):
	}
	close(release)
	<-closed
	late := httptest.NewRecorder()
	if handler.ServeHTTP(late, nil); late.Code != http.StatusServiceUnavailable {
		t.Errorf("a request after the end: %d", late.Code)
	}
}

// What names and limits of users may be.
func TestUserNames(t *testing.T) {
	w := newWorld(t, nil)
	number := func(n int) *int { return &n }
	for want, v := range map[string]UserRequest{
		"is not a name": {Name: "Ada"}, "is not a name for": {Name: "../x"}, "is not a name for a user": {Name: ""},
		"own user": {Name: OperatorName}, "a share": {Name: "a", Share: number(1001)}, "a limit": {Name: "a", Slots: number(-1)},
	} {
		if _, err := w.cli.AddUser(t.Context(), v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", v, err)
		}
	}
	w.addUser("ada", Terms{})
	if _, err := w.cli.AddUser(t.Context(), UserRequest{Name: "ada"}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("%v", err)
	}
	if err := w.cli.SetUser(t.Context(), UserRequest{Name: "ada", Share: number(2000)}); err == nil || w.hub.accounts.terms("").Share != 0 {
		t.Errorf("%v", err)
	}
	if err := w.cli.SetUser(t.Context(), UserRequest{Name: OperatorName, Share: number(5)}); err != nil {
		t.Error(err)
	}
	if list := w.hub.users(operator); fmt.Sprint(list[0].Name, list[0].Share, list[1].Name, list[1].Share) != "operator5ada1" {
		t.Errorf("%+v", list)
	}
	damage(t, filepath.Join(w.hub.cfg.State, usersFile))
	w.hub.Close()
	if _, err := Open(w.hub.cfg); err == nil || !strings.Contains(err.Error(), "users.json is damaged") {
		t.Errorf("%v", err)
	}
}

// Calls of accounts wait for a node whose agent keeps users apart.
func TestOlderAgentGetsNoCallsOfUsers(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Sched = sched.Config{NoNode: time.Millisecond} })
	ada := w.addUser("ada", Terms{})
	a := w.join()
	a.connect()
	a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: 2, Boot: "b"})
	a.askLeases(2)
	m := ada.startMaster()
	m.call(1, nil)
	if e := m.readFailure(1); !strings.Contains(e.Text, "keeps users apart: update the agents") {
		t.Errorf("%q", e.Text)
	}
	own := w.startBoundMaster()
	own.call(1, nil)
	if l := a.nextLease(); l.User != "" {
		t.Errorf("%+v", l.Lease)
	}
}
