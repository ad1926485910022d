// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// A fakeUser is a user with an account, on another machine.
type fakeUser struct {
	w    *world
	node *ident.Node
	cli  *Client
	id   string
}

func (w *world) addUser(name string, t Terms) *fakeUser {
	w.t.Helper()
	answer, err := w.cli.AddUser(w.t.Context(), UserRequest{Name: name, Share: &t.Share, Slots: &t.Slots, Bytes: &t.Bytes})
	if err != nil {
		w.t.Fatal(err)
	}
	u := &fakeUser{w: w, node: openTestUser(w.t)}
	if err := Login(w.t.Context(), u.node, w.hub.Address().String(), answer.Token); err != nil {
		w.t.Fatal(err)
	}
	u.cli = NewUserClient(u.node)
	a, err := w.hub.accounts.byKey(u.node.ID())
	if err != nil || a.Name != name {
		w.t.Fatal(a, err)
	}
	u.id = a.ID
	return u
}

func openTestUser(t *testing.T) *ident.Node {
	t.Helper()
	n, err := ident.OpenUser(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// startMaster starts a master that has bound its module, and answers the hub's questions for
// worker programs.
func (u *fakeUser) startMaster() *fakeMaster {
	u.w.t.Helper()
	m := u.w.startMasterBy(u.cli, RunRequest{Name: "theirs", Dirs: []string{u.w.dirs}})
	go func() {
		for {
			if _, err := m.events.Next(); err != nil {
				return
			}
		}
	}()
	m.bindModule()
	return m
}

// A user on another machine runs a master there: its worker program, arguments and results go
// over TLS. Its calls say whose they are.
func TestUserSubmits(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(1)
	m := ada.startMaster()
	m.call(9, []byte("arguments"))
	l := a.nextLease()
	if l.User != ada.id || string(l.raw) != "arguments" {
		t.Fatalf("%+v %q", l.Lease, l.raw)
	}
	a.sendDone(l, []byte("result"))
	if _, b := m.readResult(9); string(b) != "result" {
		t.Errorf("%q", b)
	}
	large := randomBytes(3 << 20)
	m.call(10, large)
	a.askLeases(1)
	l = a.nextLease()
	if _, b := a.request(http.MethodGet, proto.PathArgs(l.Call, l.Fence), nil); !bytes.Equal(b, large) {
		t.Error("long arguments differ")
	}
	own := w.startBoundMaster()
	own.call(1, nil)
	a.sendDone(l, nil)
	m.readResult(10)
	a.askLeases(1)
	if l := a.nextLease(); l.User != "" {
		t.Errorf("a call of the operator is that of %q", l.User)
	}
}

// Programs are looked for on the user's machine: the hub's own files cannot be named.
func TestUserBindsOnlyItsOwnFiles(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	theirs := t.TempDir()
	m := w.startMasterBy(ada.cli, RunRequest{Name: "x", Dirs: []string{theirs}})
	go func() {
		for {
			if _, err := m.events.Next(); err != nil {
				return
			}
		}
	}()
	m.send(uapi.TypeBind, 1, []byte("mod"))
	if e := m.readFailure(1); !strings.Contains(e.Text, "no worker program mod.rex in "+theirs) {
		t.Errorf("%q", e.Text)
	}
	// Folders that it names in its request are not the hub's.
	r, err := w.hub.openRun(RunRequest{Dirs: []string{w.dirs}}, viewer{user: ada.id})
	if err != nil || r.dirs != nil || r.socket != "" {
		t.Errorf("the run of a user searches %q on the hub, %v", r.dirs, err)
	}
}

func onlyRun(w *world) string {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for key := range w.hub.runs {
		return key
	}
	return ""
}

// What a hostile user tries with another's run, calls, sessions, ledger, output and blobs, and
// with what is the operator's, is refused by name.
func TestHostileUser(t *testing.T) {
	w := newWorld(t, nil)
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{Slots: 1})
	a := w.startAgent(1)
	m := ada.startMaster()
	m.call(9, []byte("secret"))
	l := a.nextLease()
	ctx, key := t.Context(), onlyRun(w)

	if v, err := eve.cli.Calls(ctx, ""); err != nil || v.All != 0 {
		t.Errorf("eve sees %+v, %v", v, err)
	}
	if v, err := ada.cli.Calls(ctx, ""); err != nil || v.All != 1 || v.List[0].User != "ada" {
		t.Errorf("ada sees %+v, %v", v, err)
	}
	if v, err := w.cli.Calls(ctx, l.Session); err != nil || v.All != 1 || v.List[0].User != "ada" {
		t.Errorf("the operator sees %+v, %v", v, err)
	}
	waitUntil(t, "the ledger", func() bool {
		list, err := ada.cli.Ledger(ctx, LedgerQuery{})
		return err == nil && len(list) == 2 && list[0].User == "ada"
	})
	if list, err := eve.cli.Ledger(ctx, LedgerQuery{Call: l.Call}); err != nil || len(list) != 0 {
		t.Errorf("eve reads %+v, %v", list, err)
	}
	if s, err := eve.cli.Status(ctx); err != nil || s.Calls != 0 || s.Sessions != 0 || s.PID != 0 || s.Stored != 0 {
		t.Errorf("eve sees %+v, %v", s, err)
	}
	if list, err := eve.cli.Users(ctx); err != nil || len(list) != 1 || list[0].Name != "eve" {
		t.Errorf("eve sees the users %+v, %v", list, err)
	}

	do := func(method, path string) func() error {
		return func() error {
			resp, err := eve.cli.request(ctx, method, path, UserRequest{Name: "eve"})
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
	}
	logs := func(session string) error {
		_, err := eve.cli.Exec(ctx, ExecRequest{Node: a.node.ID(), Logs: true, Session: session}, nil, io.Discard, io.Discard)
		return err
	}
	many := 100
	for _, c := range []struct {
		what string
		try  func() error
		want string
	}{
		{"cancel a call", func() error { _, err := eve.cli.CancelCall(ctx, l.Call); return err }, "no call that has not ended"},
		{"cancel a session", func() error { _, err := eve.cli.CancelCalls(ctx, l.Session); return err }, "no open session begins"},
		{"list a session", func() error { _, err := eve.cli.Calls(ctx, l.Session[:4]); return err }, "no open session begins"},
		{"end a run", do(http.MethodPost, "/v1/runs/"+key+"/end"), "no run has this name"},
		{"claim a run", do(http.MethodPost, "/v1/runs/"+key+"/again"), "no run has this name"},
		{"put a master into a run", func() error { _, _, err := eve.cli.switchTo(ctx, "/v1/runs/"+key+"/master", nil); return err }, "no run has this name"},
		{"answer for a run", do(http.MethodPost, "/v1/runs/"+key+"/workers/x"), "no run has this name"},
		{"read output", func() error { return logs(l.Session) }, "no session of yours"},
		{"read the latest output", func() error { return logs("") }, "no session of yours"},
		{"read a blob", do(http.MethodGet, "/v1/blob/"+l.Worker.Module), "operator"},
		{"read arguments", do(http.MethodGet, proto.PathArgs(l.Call, l.Fence)), "operator"},
		{"write a result", do(http.MethodPut, proto.PathResult(l.Call, l.Fence)), "operator"},
		{"widen its share", func() error { return eve.cli.SetUser(ctx, UserRequest{Name: "eve", Share: &many, Slots: &many}) }, "operator"},
		{"add a user", func() error { _, err := eve.cli.AddUser(ctx, UserRequest{Name: "mallory"}); return err }, "operator"},
		{"make a token", func() error { _, err := eve.cli.UserToken(ctx, UserRequest{Name: "ada"}); return err }, "operator"},
		{"remove a user", func() error { return eve.cli.RemoveUser(ctx, "ada") }, "operator"},
		{"make a node's token", func() error { _, err := eve.cli.Token(ctx, TokenRequest{}); return err }, "operator"},
		{"take a backup", do(http.MethodGet, "/v1/backup"), "operator"},
		{"watch all events", func() error { _, err := eve.cli.Events(ctx); return err }, "operator"},
		{"drain a node", func() error { return eve.cli.DrainNode(ctx, "x", DrainKeep) }, "operator"},
		{"run another's program", func() error {
			_, err := eve.cli.Exec(ctx, ExecRequest{Node: a.node.ID(), Program: l.Worker.Module}, nil, io.Discard, io.Discard)
			return err
		}, "the hub does not have this program of yours"},
		{"list movable programs", do(http.MethodGet, "/v1/jobs"), "operator"},
		{"move a program", do(http.MethodPost, "/v1/jobs/1/move"), "operator"},
		{"take a node's streams", do(http.MethodPost, proto.PathExec("x", l.Fence)), "operator"},
		{"work as a node", do(http.MethodPost, proto.PathClaim), "operator"},
	} {
		if err := c.try(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if u := w.hub.accounts.terms(eve.id); u.Slots != 1 || u.Share != 0 {
		t.Errorf("eve has %+v", u)
	}
	// The engine's port takes no user, and a node is no user.
	if conf, err := eve.node.TLS(proto.ALPNNats); err != nil {
		t.Error(err)
	} else if c, err := tls.Dial("tcp", w.hub.Address().String(), conf); err == nil {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a user spoke to the engine")
		}
		c.Close()
	}
	if resp, _ := a.request(http.MethodGet, "/v1/calls", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a node lists calls: %s", resp.Status)
	}
	a.sendDone(l, []byte("right"))
	if _, b := m.readResult(9); string(b) != "right" {
		t.Errorf("ada got %q", b)
	}
}

// An account that was removed ends at once on all machines, and neither its certificate nor its
// tokens nor an account of the same name bring it back.
func TestRemovedUser(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(2)
	m := ada.startMaster()
	m.call(9, nil)
	session := a.nextLease().Session
	spare, err := w.cli.UserToken(t.Context(), UserRequest{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cli.RemoveUser(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	receiveFrom(t, "the end of the master", m.ended)
	if v := receiveFrom(t, "the end of its workers", a.releases); v.Session != session {
		t.Errorf("the node ends session %s of %s", v.Session, session)
	}
	waitUntil(t, "the end of the run", func() bool {
		s := w.hub.Status()
		return s.Sessions == 0 && onlyRun(w) == ""
	})
	again := w.addUser("ada", Terms{})
	if again.id == ada.id {
		t.Error("another account has the same id")
	}
	for _, try := range []func() error{
		func() error { _, err := ada.cli.Status(t.Context()); return err },
		func() error { _, _, err := ada.cli.Run(t.Context(), RunRequest{}); return err },
		func() error { return RenewUser(t.Context(), ada.node, time.Now().AddDate(0, 11, 0)) },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "the account ada was removed") {
			t.Errorf("%v", err)
		}
	}
	if err := Login(t.Context(), ada.node, w.hub.Address().String(), spare.Token); err == nil {
		t.Error("a token of the removed account opens it")
	}
	fresh, err := w.cli.UserToken(t.Context(), UserRequest{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Login(t.Context(), ada.node, w.hub.Address().String(), fresh.Token); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("the old key opens the new account: %v", err)
	}
	if err := w.cli.RemoveUser(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "no user is called") {
		t.Errorf("%v", err)
	}
}

// Tokens of nodes and of users do not open each other's doors, and each works once.
func TestUserTokens(t *testing.T) {
	w := newWorld(t, nil)
	answer, err := w.cli.AddUser(t.Context(), UserRequest{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	address := w.hub.Address().String()
	if _, err := w.postJoin(answer.Token, newNode(t), nil); !isProblem(err, proto.ProblemToken) {
		t.Errorf("a user's token admits a node: %v", err)
	}
	if err := Login(t.Context(), openTestUser(t), address, w.createToken(1, time.Hour)); !isProblem(err, proto.ProblemToken) {
		t.Errorf("a node's token opens an account: %v", err)
	}
	n := openTestUser(t)
	if err := n.Why(); !errors.Is(err, ident.ErrNoAccount) {
		t.Errorf("%v", err)
	}
	if err := Login(t.Context(), n, address, answer.Token); err != nil {
		t.Fatal(err)
	}
	if err := Login(t.Context(), openTestUser(t), address, answer.Token); !isProblem(err, proto.ProblemToken) {
		t.Errorf("a token opens two: %v", err)
	}
	before := n.Expires()
	if err := RenewUser(t.Context(), n, time.Now()); err != nil || n.Expires() != before {
		t.Errorf("a new certificate was renewed: %v", err)
	}
	if err := RenewUser(t.Context(), n, time.Now().AddDate(0, 0, 330)); err != nil || !n.Expires().After(before.Add(-time.Minute)) {
		t.Errorf("an old certificate: %v", err)
	}
	if csr, err := openTestUser(t).CSR(); err != nil {
		t.Error(err)
	} else if _, err := requestJSON[proto.Joined](t.Context(), NewUserClient(n), http.MethodPost, proto.PathRenew, proto.Renew{CSR: csr}); err == nil || !strings.Contains(err.Error(), "bound to another key") {
		t.Errorf("another key: %v", err)
	}
	if err := Login(t.Context(), openTestUser(t), newWorld(t, nil).hub.Address().String(), answer.Token); !errors.Is(err, ident.ErrOtherHub) && !errors.Is(err, ident.ErrWrongHub) {
		t.Errorf("another hub: %v", err)
	}
}

func isProblem(err error, code string) bool {
	var p *proto.Problem
	return errors.As(err, &p) && p.Code == code
}
