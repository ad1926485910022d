// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
)

// startStandby has another state directory stand by for the world's hub.
func (w *world) startStandby() *Standby {
	w.t.Helper()
	token, err := w.cli.StandbyToken(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{State: shortDir(w.t), Listen: "127.0.0.1:0", Version: "test", Now: w.clock.now}
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(testLog{w.t}, nil))
	}
	s, err := OpenStandby(w.t.Context(), cfg, w.hub.Address().String(), token.Token)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	w.awaitWhole(s)
	return s
}

func (w *world) awaitWhole(s *Standby) {
	w.t.Helper()
	waitUntil(w.t, "a whole standby", func() bool {
		i, err := w.cli.Standby(w.t.Context())
		return err == nil && i.State == StandbyWhole && s.Info().State == StandbyWhole
	})
}

// isolate cuts the connection of the standby, which finds no hub any more, as if the hub was dead.
func (s *Standby) isolate(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s.mu.Lock()
	s.state.Hub = l.Addr().String()
	s.conn.Close()
	s.mu.Unlock()
	waitUntil(t, "the loss of the hub", func() bool { return s.Info().State == StandbyAway })
}

// openPromoted opens the hub that a promoted standby is.
func (w *world) openPromoted(s *Standby) *Hub {
	w.t.Helper()
	receiveFrom(w.t, "the promotion", s.Promoted())
	s.Close()
	cfg := s.cfg
	cfg.Keep, cfg.Sched, cfg.Listen = true, w.hub.cfg.Sched, s.Address().String()
	next, err := Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(next.Close)
	return next
}

// copied compares a file of both, with results beside the state.
func (w *world) copied(s *Standby, name string) bool {
	a, errA := os.ReadFile(filepath.Join(w.hub.cfg.State, name))
	b, errB := os.ReadFile(filepath.Join(s.cfg.State, name))
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func stateNames(dir string, patterns ...string) (names []string) {
	for _, p := range patterns {
		list, _ := filepath.Glob(filepath.Join(dir, p))
		for _, path := range list {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
	}
	return names
}

// A standby has all that its hub has stored, and what is answered from then on it has before the
// answer. What ended is gone there too, also what ended while it was away.
func TestStandbyHasAll(t *testing.T) {
	w, m, a := newTrio(t, func(c *Config) { c.Keep, c.Grace = true, testTimeout }, 1)
	m.call(7, []byte("args"))
	l := a.nextLease()
	m.raw.Close() // it reads nothing
	a.putResult(l, randomBytes(proto.InlineMax+1), nil)
	m.waitForEvent("the result", func(e Event) bool { return e.State == CallDone })
	ada := w.addUser("ada", Terms{})
	s := w.startStandby()
	check := func(what string) {
		t.Helper()
		patterns := []string{"ca.*", "fences", "engine/keys.json", "nodes.json", "users.json", "*tokens.json", "runs/*", "blobs/sha256/*", "spool/result-*"}
		for _, name := range stateNames(w.hub.cfg.State, patterns...) {
			if strings.HasSuffix(name, ".lock") || name == "standby-tokens.json" {
				continue
			}
			if !w.copied(s, name) {
				t.Errorf("%s: the standby lacks %s", what, name)
			}
		}
		for _, name := range stateNames(s.cfg.State, "runs/*", "spool/result-*") {
			if _, err := os.Stat(filepath.Join(w.hub.cfg.State, name)); err != nil {
				t.Errorf("%s: the standby has %s, which is over", what, name)
			}
		}
	}
	check("at first")
	if len(stateNames(s.cfg.State, "runs/*", "spool/result-*", "users.json")) != 3 {
		t.Error("there was nothing to copy")
	}
	w.join()
	check("after a join")
	w.addUser("eve", Terms{})
	check("after a user")
	theirs := ada.startMaster()
	check("after a run, a session and a module")
	if err := w.cli.RemoveNode(t.Context(), a.node.ID()); err != nil {
		t.Fatal(err)
	}
	check("after a node was removed")
	theirs.events.End(t.Context())
	waitUntil(t, "the end of the run", func() bool { return len(stateNames(s.cfg.State, "runs/*")) == 1 })
	check("after a run")
	ledger := func(e *engine.Engine) (n int) {
		e.All(t.Context(), func(list []engine.Entry) error { n += len(list); return nil })
		return n
	}
	waitUntil(t, "the ledger", func() bool {
		return s.engine != nil && ledger(w.hub.engine) > 2 && ledger(w.hub.engine) == ledger(s.engine)
	})
	w.changeAway(s, ada)
	check("after it was away")
	if ledger(w.hub.engine) != ledger(s.engine) {
		t.Errorf("%d and %d entries", ledger(w.hub.engine), ledger(s.engine))
	}
}

// changeAway ends a run and begins another one while the standby is away.
func (w *world) changeAway(s *Standby, u *fakeUser) {
	w.t.Helper()
	first := u.startMaster()
	hub := s.state.Hub
	s.isolate(w.t)
	first.events.End(w.t.Context())
	w.addUser("joe", Terms{})
	u.startMaster()
	s.mu.Lock()
	s.state.Hub = hub
	s.mu.Unlock()
	w.awaitWhole(s)
}

// A result is on both machines before its call is accepted as done.
func TestStandbyHasResults(t *testing.T) {
	w, m, a := newTrio(t, func(c *Config) { c.Keep, c.Grace = true, testTimeout }, 1)
	s := w.startStandby()
	m.call(7, []byte("args"))
	l := a.nextLease()
	m.raw.Close() // it reads nothing
	a.putResult(l, randomBytes(proto.InlineMax+1), nil)
	m.waitForEvent("the result", func(e Event) bool { return e.State == CallDone })
	list := stateNames(w.hub.cfg.State, "spool/result-*")
	if len(list) != 1 || !w.copied(s, list[0]) {
		t.Errorf("the standby lacks %q", list)
	}
	m.events.End(t.Context())
	waitUntil(t, "the end of the result", func() bool { return len(stateNames(s.cfg.State, "spool/result-*")) == 0 })
}

// A hub dies, and its standby takes over by the operator's word: the call that ran goes on and ends
// once, a result that was accepted is there and its call is not run again, numbers are new, nodes do
// not go back, and the old hub that wakes up ends at the first word of it.
func TestStandbyTakesOver(t *testing.T) {
	fenced := make(chan error, 10)
	w, m, a := newTrio(t, func(c *Config) {
		c.Keep, c.Grace, c.Fenced = true, testTimeout, func(err error) { fenced <- err }
	}, 2)
	result := randomBytes(proto.InlineMax + 1)
	s := w.startStandby()
	m.call(7, []byte("args"))
	m.call(8, []byte("args"))
	runs, ended := a.nextLease(), a.nextLease()
	m.raw.Close()
	a.putResult(ended, result, nil)
	m.waitForEvent("the result", func(e Event) bool { return e.State == CallDone })
	old := w.hub
	s.isolate(t)
	local := NewClient(ControlSocket(s.cfg.State))
	if err := local.Promote(t.Context(), PromoteRequest{}); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Fatalf("a hub that does not answer was replaced without a word: %v", err)
	}
	if err := local.Promote(t.Context(), PromoteRequest{Force: true}); err != nil {
		t.Fatal(err)
	}
	a.nats.Close()
	w.hub = w.openPromoted(s)
	w.cli = NewClient(w.hub.ControlSocket())
	if w.hub.firstNumber <= old.firstNumber+numbersEach {
		t.Error("the new hub may give numbers that the old one gives")
	}
	r := w.returnMaster(m)
	r.call(7, []byte("args"))
	r.call(8, []byte("args"))
	if _, got := r.readAll(8); !bytes.Equal(got, result) {
		t.Errorf("%d bytes came", len(got))
	}
	a.returnAgent(1, carriedLease(runs))
	if v := receiveFrom(t, "a resume", a.resumes); v.Fence != runs.Fence {
		t.Errorf("lease %d is resumed, not %d", v.Fence, runs.Fence)
	}
	a.sendDone(runs, []byte("result"))
	if got := r.readData(7); got != "result" {
		t.Errorf("%q came", got)
	}
	r.call(9, nil)
	if l := a.nextLease(); l.Client != 9 || l.Fence <= runs.Fence+numbersEach {
		t.Errorf("call %d got lease %d", l.Client, l.Fence)
	}
	w.refuseOld(old, a, fenced)
}

// refuseOld checks that a hub from which another one took over gets no node, and ends.
func (w *world) refuseOld(old *Hub, a *fakeAgent, fenced chan error) {
	t := w.t
	t.Helper()
	a.http.CloseIdleConnections()
	if _, err := a.http.Get("https://" + old.Address().String()); !errors.Is(err, ident.ErrFormerHub) {
		t.Errorf("a node goes back to the old hub: %v", err)
	}
	conf, err := a.node.FormerTLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	epoch, proof := a.node.Epoch()
	if epoch != 1 {
		t.Errorf("epoch %d", epoch)
	}
	if err := TellEpoch(old.Address().String(), conf, proof); err != nil {
		t.Fatal(err)
	}
	if err := receiveFrom(t, "the end of the old hub", fenced); !errors.Is(err, ErrOver) {
		t.Error(err)
	}
	if _, err := a.w.cli.Nodes(t.Context(), ""); err != nil {
		t.Errorf("the new hub: %v", err)
	}
	if _, err := NewClient(old.ControlSocket()).Nodes(t.Context(), ""); !errors.Is(err, errStops) {
		t.Errorf("the old hub answers: %v", err)
	}
	if _, err := Open(Config{State: copyOf(t, old.cfg.State), Listen: "127.0.0.1:0"}); !errors.Is(err, ErrOver) {
		t.Errorf("the old hub starts again: %v", err)
	}
}

func copyOf(t *testing.T, state string) string {
	dir := shortDir(t)
	copyTree(t, state, dir)
	return dir
}

// A hub that answers gives way: it accepts nothing more, and its standby has everything. Nodes and
// users know the standby from their hub.
func TestHubGivesWay(t *testing.T) {
	fenced := make(chan error, 10)
	w := newWorld(t, func(c *Config) { c.Keep, c.Fenced = true, func(err error) { fenced <- err } })
	a := w.join()
	a.connect()
	ada := w.addUser("ada", Terms{})
	m := ada.startMaster()
	s := w.startStandby()
	if v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", CPUs: 1, Slots: 1, Boot: "b", Hubs: true}); len(v.Hubs) != 1 || v.Hubs[0] != s.address() {
		t.Errorf("a node hears of %q", v.Hubs)
	}
	waitUntil(t, "the run's news of the standby", func() bool { return len(ada.node.Hubs()) == 2 })
	if _, err := ada.cli.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := w.hub.Address().String()
	if err := NewClient(ControlSocket(s.cfg.State)).Promote(t.Context(), PromoteRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := receiveFrom(t, "the end of the old hub", fenced); !errors.Is(err, ErrOver) {
		t.Error(err)
	}
	done := make(chan bool)
	go func() { w.hub.mirror.settle(); close(done) }()
	w.openPromoted(s)
	waitUntil(t, "a user's way to the new hub", func() bool { _, err := ada.cli.Status(t.Context()); return err == nil })
	if list := ada.node.Hubs(); list[0] == old {
		t.Errorf("a user looks at %q first", list[0])
	}
	events, err := ada.cli.RunAgain(t.Context(), m.events)
	if err != nil {
		t.Fatalf("a user's run is lost: %v", err)
	}
	events.Close()
	select {
	case <-done:
		t.Error("a hub that gave way accepted something")
	default:
	}
}

// The new hub tells the old one, which slept, as soon as it answers.
func TestOldHubIsTold(t *testing.T) {
	fenced := make(chan error, 10)
	w := newWorld(t, func(c *Config) { c.Keep, c.Fenced = true, func(err error) { fenced <- err } })
	s := w.startStandby()
	address := w.hub.Address().String()
	s.isolate(t)
	s.mu.Lock()
	s.state.Hub = address // it is there again when it has been replaced
	s.mu.Unlock()
	if err := s.takeOver(standing{Epoch: 1, Former: address}); err != nil {
		t.Fatal(err)
	}
	close(s.promoted)
	next := w.openPromoted(s)
	receiveFrom(t, "the end of the old hub", fenced)
	waitUntil(t, "the end of telling", func() bool {
		var v standing
		_, err := readStateFile(next.cfg.State, standingFile, &v)
		return err == nil && v.Epoch == 1 && v.Former == ""
	})
	for range 2 { // what it is, it stays
		if err := AskStandby(t.Context(), w.hub.cfg.State); !errors.Is(err, ErrOver) {
			t.Error(err)
		}
	}
}

// A standby that stops holds its hub up for a short time only, and then the hub goes on alone, and says so.
func TestStandbyThatStops(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Keep, c.copyStall = true, time.Millisecond })
	token, err := w.cli.StandbyToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node := openTestUser(t)
	s := &Standby{cfg: w.hub.cfg, log: w.hub.log, node: node}
	if err := s.join(t.Context(), w.hub.Address().String(), token.Token); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	m := w.hub.mirror
	m.attach(ours, nil)
	m.finish(ours)
	m.mu.Lock()
	m.acked = m.last // it had all
	m.mu.Unlock()
	gone := make(chan struct{})
	defer close(gone)
	go func() { m.watch(ours, gone); m.detach(ours) }()
	w.join() // returns only if the hub goes on
	if i, err := w.cli.Standby(t.Context()); err != nil || i.State != StandbyAway {
		t.Error(i, err)
	}
}

// Only the hub's one standby, with a token that is for that, gets the hub's keys; a node, a user, and
// a machine that stood by before do not.
func TestWhoMayStandBy(t *testing.T) {
	w := newWorld(t, keepRuns)
	cfg := Config{State: shortDir(t), Listen: "127.0.0.1:0"}
	for _, token := range []string{w.createToken(1, time.Hour), "skep1.x"} {
		if _, err := OpenStandby(t.Context(), cfg, w.hub.Address().String(), token); err == nil {
			t.Errorf("%q makes a standby", token)
		}
	}
	if _, err := OpenStandby(t.Context(), cfg, "", ""); err == nil || !strings.Contains(err.Error(), "skep standby token") {
		t.Errorf("a standby of nobody: %v", err)
	}
	if _, err := OpenStandby(t.Context(), Config{State: copyOf(t, w.hub.cfg.State), Listen: "127.0.0.1:0"}, "", ""); err == nil || !strings.Contains(err.Error(), "state of a hub") {
		t.Errorf("a hub's state stands by: %v", err)
	}
	a := w.startAgent(1)
	for _, path := range []string{proto.PathCopy, proto.PathYield} {
		if resp, text := a.request(http.MethodPost, path, strings.NewReader(`{"epoch":9}`)); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s answers a node %d %s", path, resp.StatusCode, text)
		}
	}
	first := w.startStandby()
	first.mu.Lock()
	first.state.Whole = false
	first.mu.Unlock()
	if err := first.Promote(t.Context(), PromoteRequest{Force: true}); err == nil || !strings.Contains(err.Error(), "never had everything") {
		t.Errorf("a standby that lacks something takes over: %v", err)
	}
	w.startStandby()
	waitUntil(t, "the end of the first standby", func() bool { return first.Info().State == StandbyAway })
	if err := first.copyHub(); err == nil || !isProblem(err, proto.ProblemToken) {
		t.Errorf("a former standby copies: %v", err)
	}
	if err := w.cli.ForgetStandby(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i, err := w.cli.Standby(t.Context()); err != nil || i.State != StandbyNone {
		t.Error(i, err)
	}
	if _, err := Open(first.cfg); err == nil {
		t.Error("a hub opens the state of a standby")
	}
}

// What ends a hub is the certificate of another one with its own CA, and nothing that a node has.
func TestProofOfAnotherHub(t *testing.T) {
	fences := atomic.Int32{}
	w := newWorld(t, func(c *Config) { c.Fenced = func(error) { fences.Add(1) } })
	a := w.startAgent(1)
	own := w.hub.proof
	other := newWorld(t, nil)
	conf, err := other.hub.ca.RankTLS(ident.Rank{Epoch: 9})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := conf.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if conf, err = w.hub.ca.RankTLS(ident.Rank{Epoch: 9, Standby: true}); err != nil {
		t.Fatal(err)
	}
	standby, err := conf.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	former, err := a.node.FormerTLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	for what, proof := range map[string][]byte{"a node's": a.node.Admission().Certificate, "another CA's": foreign.Certificate[0],
		"a standby's": standby.Certificate[0], "the CA's": w.hub.ca.DER(), "no": []byte("x")} {
		if err := TellEpoch(w.hub.Address().String(), former, proof); err == nil {
			t.Errorf("%s certificate is a proof", what)
		}
	}
	if err := TellEpoch(w.hub.Address().String(), former, own); err != nil {
		t.Errorf("the hub's own: %v", err)
	}
	if _, err := w.cli.Nodes(t.Context(), ""); err != nil || w.hub.over.Load() || fences.Load() != 0 {
		t.Errorf("the hub is over: %v", err)
	}
}

// A hub that had a standby starts only when that one says that it did not take over.
func TestHubAsksItsStandby(t *testing.T) {
	w := newWorld(t, keepRuns)
	if err := AskStandby(t.Context(), w.hub.cfg.State); err != nil {
		t.Errorf("without a standby: %v", err)
	}
	s := w.startStandby()
	if err := AskStandby(t.Context(), w.hub.cfg.State); err != nil {
		t.Errorf("with one: %v", err)
	}
	s.Close()
	if err := AskStandby(t.Context(), w.hub.cfg.State); err == nil || errors.Is(err, ErrOver) {
		t.Errorf("with one that does not answer: %v", err)
	}
}

// A hub waits only for a standby that may have taken over: it starts without one, and a damaged
// record ends it.
func TestHubWaitsForAStandbyOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, standbyFile)
	if err := AskStandby(t.Context(), dir); err != nil {
		t.Errorf("none: %v", err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AskStandby(t.Context(), dir); err == nil || errors.Is(err, ErrNobodyKnows) || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("damaged: %v", err)
	}
	if err := AskStandby(t.Context(), filepath.Join(file, "hub")); err != nil {
		t.Errorf("no place for a directory: %v", err)
	}
}
