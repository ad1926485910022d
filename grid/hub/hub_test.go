// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/session"
	"skep/internal/uapi"
)

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestJoin(t *testing.T) {
	w := newWorld(t, nil)
	node := newNode(t)
	good := w.createToken(2, time.Hour)
	other := newWorld(t, nil).createToken(1, time.Hour)
	expired, err := w.hub.tokens.New(1, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := ident.ParseToken(good)
	if err != nil {
		t.Fatal(err)
	}
	unknown.Secret[0]++
	refused := []struct {
		name, token string
		change      func(*proto.Join)
		want        string
	}{
		{"another hub's token", other, nil, ident.ErrWrongHub.Error()},
		{"expired", expired.String(), nil, ident.ErrTokenExpired.Error()},
		{"unknown", unknown.String(), nil, ident.ErrTokenUnknown.Error()},
		{"no token", good, func(j *proto.Join) { j.Token = "x" }, ident.ErrTokenForm.Error()},
		{"older peer", good, func(j *proto.Join) { j.Revision -= 2 }, "revision 1: update the node's skep"},
		{"newer peer", good, func(j *proto.Join) { j.Revision += 2 }, "revision 5: update the hub's skep"},
		{"no request", good, func(j *proto.Join) { j.CSR = nil }, "cannot be read"},
		{"no key", good, func(j *proto.Join) { j.NKey = "x" }, "public key"},
	}
	for _, c := range refused {
		_, err := w.postJoin(c.token, node, c.change)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for range 2 { // the failed joins did not count as uses
		if _, err := w.postJoin(good, node, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.postJoin(good, node, nil); err == nil || err.Error() != ident.ErrTokenUsedUp.Error() {
		t.Fatalf("used up: %v", err)
	}
	thief := newNode(t)
	_, err = w.postJoin(w.createToken(1, time.Hour), thief, func(j *proto.Join) { j.NKey = node.NKey() })
	if err == nil || !strings.Contains(err.Error(), "another key") {
		t.Fatalf("a thief of an identity joined: %v", err)
	}
	j, err := w.postJoin(w.createToken(1, time.Hour), thief, nil)
	if err != nil || j.Name != "pc-2" {
		t.Fatalf("the second node of a name: %+v, %v", j, err)
	}
}

func TestOlderPeerIsToldBothRevisions(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	a.connect()
	v := a.helloWith(proto.Hello{Revision: proto.Revision - 2, Slots: 1})
	if v.Problem == nil || !strings.Contains(v.Problem.Text, "revision 3 and the node revision 1: update the node's skep") {
		t.Fatalf("got %+v", v.Problem)
	}
	if n := w.hub.Nodes(); n[0].State != NodeDown || n[0].Problem == "" {
		t.Fatalf("got %+v", n[0])
	}
}

// A hub answers a node one release behind, or ahead, in the revision that both know.
func TestFormerPeerIsAnsweredInItsRevision(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	a.connect()
	for theirs, want := range map[int]int{proto.Revision - 1: proto.Revision - 1, proto.Revision: proto.Revision, proto.Revision + 1: proto.Revision} {
		if v := a.helloWith(proto.Hello{Revision: theirs, Slots: 1}); v.Problem != nil || v.Revision != want {
			t.Errorf("a hello of revision %d got %+v", theirs, v)
		}
	}
	if n := w.hub.Nodes(); n[0].State != NodeUp {
		t.Errorf("got %+v", n[0])
	}
}

func TestNeedsNodeCertificate(t *testing.T) {
	w := newWorld(t, nil)
	token, _ := ident.ParseToken(w.createToken(1, time.Hour))
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: ident.JoinTLS(token, proto.ALPNHTTP)}}
	defer c.CloseIdleConnections()
	for _, path := range []string{proto.PathBlob(digestOf(nil)), proto.PathArgs(1, 1)} {
		resp, err := c.Get("https://" + w.hub.Address().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

func TestCall(t *testing.T) {
	w, m, a := newTrio(t, nil, 4)
	for i, n := range []int{0, 1, 5000, proto.InlineMax} {
		id, args := uint64(10+i), randomBytes(n)
		m.call(id, args)
		l := a.nextLease()
		if !l.Inline || !bytes.Equal(l.raw, args) || l.Digest != digestOf(args) || l.Function != 0 || l.Name != "work" || l.Attempt != 1 {
			t.Fatalf("lease %+v with %d bytes", l.Lease, len(l.raw))
		}
		result := append([]byte("r"), args...)[:min(n+1, proto.InlineMax)]
		a.sendDone(l, result)
		r, b := m.readResult(id)
		if !bytes.Equal(b, result) || r.Attempt != 1 || r.NodeName() != "pc" || r.Substrate != uapi.SubstrateLinux || r.ExecNS != 7 {
			t.Fatalf("result %+v", r)
		}
		a.askLeases(4)
	}
	e := m.waitForEvent("done", func(e Event) bool { return e.Type == "call" && e.State == CallDone })
	if e.Name != "pc" || e.ExecNS != 7 || e.Function != "work" || e.Attempt != 1 {
		t.Fatalf("event %+v", e)
	}
	resp, b := a.request(http.MethodGet, proto.PathBlob(digestOf(encodeManifest(t))), nil)
	if resp.StatusCode != http.StatusOK || !bytes.Equal(b, encodeManifest(t)) {
		t.Fatalf("the program's blob: %s, %d bytes", resp.Status, len(b))
	}
	states := map[engine.State]int{}
	waitUntil(t, "the ledger", func() bool {
		clear(states)
		list, err := w.cli.Ledger(t.Context(), LedgerQuery{Last: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			states[e.State]++
		}
		return states[engine.Done] == 4 && states[engine.Leased] == 4 && states[engine.Queued] == 4
	})
}

// TestLargeCall fetches arguments while they arrive, and sends a large result by PUT.
func TestLargeCall(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	args, result := randomBytes(9<<20), randomBytes(5<<20)
	m.sendHeader(5, len(args))
	m.send(uapi.TypeData, 5, args[:1000])
	l := a.nextLease()
	if l.Inline || l.Length != uint64(len(args)) {
		t.Fatalf("lease %+v", l.Lease)
	}
	r, err := http.NewRequest(http.MethodGet, "https://"+w.hub.Address().String()+proto.PathArgs(l.Call, l.Fence), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	early := make([]byte, 1000)
	if _, err := io.ReadFull(resp.Body, early); err != nil || !bytes.Equal(early, args[:1000]) {
		t.Fatalf("the first bytes did not come before the last were sent: %v", err)
	}
	go m.conn.SendData(t.Context(), 5, bytes.NewReader(args[1000:]), int64(len(args)-1000))
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(rest, args[1000:]) || resp.Trailer.Get(proto.TrailerDigest) != digestOf(args) {
		t.Fatalf("%d bytes, digest %q, %v", len(rest), resp.Trailer.Get(proto.TrailerDigest), err)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil) // without a PUT
	m.waitForEvent("refused", func(e Event) bool { return e.State == CallRequeued })
	w.clock.advance(11 * time.Second)
	a.askLeases(1)
	l = a.nextLease()
	if l.Attempt != 2 {
		t.Fatalf("a result that was only announced: %+v", l.Lease)
	}
	// Without a length, like a stream with its digest in the trailer.
	put, b := a.request(http.MethodPut, proto.PathResult(l.Call, l.Fence), io.MultiReader(bytes.NewReader(result)))
	if put.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", put.Status, b)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	if res, b := m.readResult(5); !bytes.Equal(b, result) || res.Attempt != 2 {
		t.Fatalf("%+v, %d bytes", res, len(b))
	}
}

func TestFences(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	a, b := w.startAgent(0), w.startAgent(0)
	big := randomBytes(1 << 20)
	m.call(5, big)
	a.askLeases(0)
	a.sendHello(1)
	a.askLeases(1)
	l := a.nextLease()
	for name, c := range map[string]struct {
		who         *fakeAgent
		call, fence uint64
	}{"another node": {b, l.Call, l.Fence}, "another number": {a, l.Call, l.Fence + 1}, "another call": {a, l.Call + 1, l.Fence}} {
		resp, _ := c.who.request(http.MethodGet, proto.PathArgs(c.call, c.fence), nil)
		if resp.StatusCode != http.StatusConflict {
			t.Errorf("arguments for %s: %s", name, resp.Status)
		}
		resp, _ = c.who.request(http.MethodPut, proto.PathResult(c.call, c.fence), bytes.NewReader(big))
		if resp.StatusCode != http.StatusConflict {
			t.Errorf("result of %s: %s", name, resp.Status)
		}
	}
	b.sendDone(l, []byte("stolen"))
	forged := l
	forged.Fence++
	a.sendDone(forged, []byte("forged"))
	m.waitForEvent("refusals", func(e Event) bool { return e.Type == "call" && e.State == CallLeased })
	a.sendDone(l, []byte("good"))
	if _, got := m.readResult(5); string(got) != "good" {
		t.Fatalf("got %q", got)
	}
	a.sendDone(l, []byte("twice"))
	m.call(6, nil)
	a.askLeases(1)
	a.sendDone(a.nextLease(), []byte("next"))
	if _, got := m.readResult(6); string(got) != "next" {
		t.Fatalf("got %q", got)
	}
}

func TestBrokenConnectionGivesTheCallToAnother(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	first := a.nextLease()
	b := w.startAgent(1)
	begin := time.Now()
	a.nats.Opts.AllowReconnect = false
	a.cutConnection()
	second := b.nextLease()
	if took := time.Since(begin); took > 3*time.Second || second.Call != first.Call || second.Fence <= first.Fence || second.Attempt != 2 {
		t.Fatalf("after %v: %+v", took, second.Lease)
	}
	b.sendDone(second, []byte("y"))
	if r, got := m.readResult(5); string(got) != "y" || r.NodeName() != "pc-2" {
		t.Fatalf("%+v %q", r, got)
	}
}

// A lease has the limits of the run, and those of the module where the run states none.
func TestLimitsOfALease(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	for _, c := range []struct{ run, want proto.Limits }{
		{want: proto.Limits{Memory: 1 << 20, Wall: 3600}},
		{proto.Limits{Memory: 1 << 30, CPU: 2}, proto.Limits{Memory: 1 << 30, CPU: 2, Wall: 3600}},
	} {
		m := w.startMasterOf(RunRequest{Name: "test", Dirs: []string{w.dirs}, Limits: c.run})
		m.bindModule()
		m.call(5, []byte("x"))
		l := a.nextLease()
		if l.Limits != c.want {
			t.Errorf("run %+v: lease %+v, want %+v", c.run, l.Limits, c.want)
		}
		a.sendDone(l, []byte("y"))
		m.readResult(5)
		a.askLeases(1)
	}
}

func TestSilentNodeLosesItsCall(t *testing.T) {
	w, m, a := newTrio(t, func(c *Config) { c.Sched.Keep = -1 }, 1)
	m.call(5, []byte("x"))
	first := a.nextLease()
	w.clock.advance(11 * time.Second)
	b := w.startAgent(1)
	w.clock.advance(2 * time.Second) // 13 for a, 2 for b
	second := b.nextLease()
	if second.Call != first.Call {
		t.Fatalf("%+v", second.Lease)
	}
	waitUntil(t, "silent", func() bool { return w.hub.Nodes()[0].State == NodeSilent })
	a.sendDone(first, []byte("late"))
	b.sendDone(second, []byte("y"))
	if _, got := m.readResult(5); string(got) != "y" {
		t.Fatalf("%q", got)
	}
	waitUntil(t, "up again", func() bool { return w.hub.Nodes()[0].State == NodeUp })
	a.sendVerb(proto.VerbBeat, proto.Beat{Running: []uint64{first.Fence}}, nil)
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != first.Fence {
		t.Fatalf("%+v", c)
	}
}

func TestModuleInit(t *testing.T) {
	_, m, a := newTrio(t, nil, 2)
	data := randomBytes(2 << 20)
	m.send(uapi.TypeModuleInit, 2, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: uint64(len(data))}))
	m.sendData(2, data)
	m.nextFrame(uapi.TypeDone, 2)
	m.call(5, nil)
	l := a.nextLease()
	if l.Init == nil || l.Init.Blob != digestOf(data) || l.Init.Function != 1 || l.Init.Length != uint64(len(data)) || l.Worker.Init == "" {
		t.Fatalf("%+v", l.Lease)
	}
	resp, b := a.request(http.MethodGet, proto.PathBlob(l.Init.Blob), nil)
	if resp.StatusCode != http.StatusOK || !bytes.Equal(b, data) {
		t.Fatalf("%s, %d bytes", resp.Status, len(b))
	}
	for call, c := range map[uint64]struct {
		module, function uint32
		text             string
	}{
		7: {m.module, 0, "function 0 of module mod is not its Initialize"},
		8: {m.module, 100, "function 100 of module mod is not its Initialize"},
		9: {m.module + 1, 1, "no module has the handle 2"},
	} {
		m.send(uapi.TypeModuleInit, call, uapi.Append(nil, uapi.ModuleInit{Module: c.module, Function: c.function, Length: 1}))
		if e := m.readFailure(call); e.Text != c.text {
			t.Errorf("%v: %s", c, e.Text)
		}
		m.sendData(call, []byte("x"))
	}
	m.conn.Close()
	if r := receiveFrom(t, "a release", a.releases); r.Session != l.Session {
		t.Fatalf("%+v", r)
	}
}

func TestBindErrors(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	good := encodeManifest(t)
	dynamic := makeProgram(nil, elf.PT_INTERP)
	w.addProgram("dynamic.rex", dynamic)
	w.addProgram("text.rex", []byte("#!/bin/sh\n"))
	w.addProgram("cut.rex", good[:100])
	if err := os.Mkdir(filepath.Join(w.dirs, "dir.rex"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name string
		code uapi.ErrorCode
		want string
	}{
		{"none", uapi.ENoModule, "no worker program none.rex in " + w.dirs},
		{"../mod", uapi.ENoModule, "is not the name of a module"},
		{"", uapi.ENoModule, "is not the name of a module"},
		{"dir", uapi.ENoModule, "no worker program"},
		{"dynamic", uapi.EBadModule, "link it with -static"},
		{"text", uapi.EBadModule, "not an ELF program"},
		{"cut", uapi.EBadModule, "cut.rex is not a worker program"},
	} {
		id := uint64(i + 1)
		m.send(uapi.TypeBind, id, []byte(c.name))
		if e := m.readFailure(id); e.Code != c.code || !strings.Contains(e.Text, c.want) {
			t.Errorf("%q: %d %s", c.name, e.Code, e.Text)
		}
	}
	m.bindModule()
	h := m.module
	for i, c := range []struct {
		call uapi.Call
		code uapi.ErrorCode
	}{
		{uapi.Call{Module: h + 1}, uapi.ENoModule}, {uapi.Call{Module: 0}, uapi.ENoModule},
		{uapi.Call{Module: h, Function: 2}, uapi.ENoFunction}, {uapi.Call{Module: h, Function: 1}, uapi.ENoFunction},
	} {
		id := uint64(i + 20)
		m.send(uapi.TypeCall, id, uapi.Append(nil, c.call))
		if e := m.readFailure(id); e.Code != c.code {
			t.Errorf("%+v: %d %s", c.call, e.Code, e.Text)
		}
		m.sendData(id, nil)
	}
}

func TestHostileMasters(t *testing.T) {
	w := newWorld(t, nil)
	for name, send := range map[string]func(*fakeMaster){
		"a worker's frame":   func(m *fakeMaster) { m.send(uapi.TypeReady, 0, nil) },
		"data from nowhere":  func(m *fakeMaster) { m.sendData(9, []byte("x")) },
		"more data":          func(m *fakeMaster) { m.bindModule(); m.sendHeader(9, 1); m.sendData(9, []byte("xx")) },
		"less data":          func(m *fakeMaster) { m.bindModule(); m.sendHeader(9, 3); m.sendData(9, []byte("xx")) },
		"a short call":       func(m *fakeMaster) { m.send(uapi.TypeCall, 9, []byte("x")) },
		"call number 0":      func(m *fakeMaster) { m.bindModule(); m.sendHeader(0, 0) },
		"a number twice":     func(m *fakeMaster) { m.bindModule(); m.sendHeader(9, 1); m.sendHeader(9, 1) },
		"a short initialise": func(m *fakeMaster) { m.send(uapi.TypeModuleInit, 9, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			m := w.startMaster()
			m.t = t
			send(m)
			if e := m.readFailure(0); e.Code != uapi.EProtocol {
				t.Fatalf("%d %s", e.Code, e.Text)
			}
			receiveFrom(t, "the end", m.ended)
		})
	}
}

func TestCancel(t *testing.T) {
	_, m, a := newTrio(t, nil, 1)
	m.call(5, nil)
	l := a.nextLease()
	m.call(6, nil)
	m.sendHeader(7, 1<<20) // cancelled while its data arrives
	m.send(uapi.TypeCancel, 5, nil)
	m.send(uapi.TypeCancel, 6, nil)
	m.send(uapi.TypeCancel, 7, nil)
	m.send(uapi.TypeCancel, 99, nil)
	for _, id := range []uint64{5, 6, 7} {
		if e := m.readFailure(id); e.Code != uapi.ECancelled {
			t.Fatalf("%d %s", e.Code, e.Text)
		}
	}
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != l.Fence {
		t.Fatalf("%+v", c)
	}
	m.sendData(7, make([]byte, 1<<20))
	m.call(8, nil)
	a.askLeases(1)
	a.sendDone(a.nextLease(), nil)
	m.readResult(8)
}

func TestWorkerErrors(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	a, b := w.startAgent(1), w.startAgent(1)
	first := func() (*fakeAgent, fakeLease) {
		select {
		case l := <-a.leases:
			return a, l
		case l := <-b.leases:
			return b, l
		case <-time.After(testTimeout):
			t.Fatal("no lease")
		}
		return nil, fakeLease{}
	}
	m.call(5, nil)
	who, l := first()
	who.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonError, Code: uapi.EArguments, Text: "no such matrix"}, nil)
	if e := m.readFailure(5); e.Code != uapi.EArguments || !strings.Contains(e.Text, "no such matrix") {
		t.Fatalf("%d %s", e.Code, e.Text)
	}
	a.askLeases(1)
	b.askLeases(1)
	m.call(6, nil)
	for range 2 {
		who, l = first()
		who.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonDied, Status: 139, Text: "the worker was killed by signal 11"}, nil)
	}
	if e := m.readFailure(6); e.Code != uapi.EWorker || !strings.Contains(e.Text, "signal 11; the same on 2 nodes") {
		t.Fatalf("%d %s", e.Code, e.Text)
	}
	a.askLeases(1)
	b.askLeases(1)
	m.call(7, nil)
	for range 2 {
		who, l = first()
		who.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonMute, Status: 137 + int(l.Attempt), Text: "the worker sent nothing for 12s and was killed"}, nil)
	}
	if e := m.readFailure(7); e.Code != uapi.EWorker || !strings.Contains(e.Text, "nothing for 12s and was killed; so was another worker with this call before") {
		t.Fatalf("%d %s", e.Code, e.Text)
	}
	a.askLeases(1)
	b.askLeases(1)
	m.call(8, nil)
	who, l = first()
	who.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonLimit, Code: uapi.EWorker, Text: "it exceeded its limit"}, nil)
	if e := m.readFailure(8); e.Code != uapi.EWorker || !strings.Contains(e.Text, "exceeded its limit") {
		t.Fatalf("%d %s", e.Code, e.Text)
	}
}

func TestUnsafeResultsBarTheNode(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	for i, change := range []func(*proto.Done){
		func(d *proto.Done) { d.Program = digestOf([]byte("other")) },
		func(d *proto.Done) { d.Substrate = "bee-linux" },
	} {
		id := uint64(5 + i)
		bad := w.startAgent(1)
		m.call(id, nil)
		l := bad.nextLease()
		d := bad.doneOf(l, nil, true)
		change(&d)
		bad.sendVerb(proto.VerbDone, d, nil)
		good := w.startAgent(1)
		good.sendDone(good.nextLease(), nil)
		m.readResult(id)
		good.nats.Close()
		waitUntil(t, "good is gone", func() bool {
			for _, n := range w.hub.Nodes() {
				if n.ID == good.node.ID() {
					return n.State == NodeDown
				}
			}
			return false
		})
		if _, err := SelectNodes(w.hub.Nodes(), "node="+bad.node.ID()); err == nil {
			t.Fatal("the node was not barred")
		}
		if v := bad.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1}); v.Problem == nil || !strings.Contains(v.Problem.Text, "safety check") {
			t.Fatalf("%+v", v.Problem)
		}
	}
}

func TestBeeMustProveItself(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	a := w.join()
	a.connect()
	a.helloWith(proto.Hello{Revision: proto.Revision, Substrate: "bee-windows", OS: "windows", Slots: 2, Memory: 1 << 40})
	a.askLeases(2)
	m.call(5, nil)
	m.call(6, nil)
	l := a.nextLease()
	d := a.doneOf(l, nil, true)
	d.Substrate, d.Nonce, d.Calls = "bee-windows", 77, 12
	a.sendVerb(proto.VerbDone, d, nil)
	if r, _ := m.readResult(5); r.Substrate != uapi.SubstrateBeeWindows || r.Proof != (uapi.Proof{Nonce: 77, Calls: 12}) {
		t.Fatalf("%+v", r)
	}
	l = a.nextLease()
	d.Call, d.Fence, d.Calls = l.Call, l.Fence, 0
	a.sendVerb(proto.VerbDone, d, nil)
	waitUntil(t, "barred", func() bool { return w.hub.Nodes()[0].State == NodeBarred })
}

func TestMasterComesBack(t *testing.T) {
	_, m, a := newTrio(t, func(c *Config) { c.Grace = testTimeout }, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	m.raw.Close()
	if err := m.conn.Attach(m.dial()); err != nil {
		t.Fatal(err)
	}
	m.again <- struct{}{}
	a.sendDone(l, []byte("y"))
	if _, got := m.readResult(5); string(got) != "y" {
		t.Fatalf("%q", got)
	}
}

func TestMasterStaysAway(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	m.raw.Close()
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != l.Fence {
		t.Fatalf("%+v", c)
	}
	if r := receiveFrom(t, "a release", a.releases); r.Session != l.Session {
		t.Fatalf("%+v", r)
	}
	s, err := w.cli.Status(t.Context())
	if err != nil || s.Calls != 0 || s.Sessions != 0 || s.Nodes != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestEndOfRunEndsItsMasters(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Grace = time.Hour })
	m := w.startBoundMaster()
	m.events.Close()
	waitUntil(t, "the end", func() bool {
		s, err := w.cli.Status(t.Context())
		return err == nil && s.Sessions == 0
	})
	if _, err := os.Stat(m.socket); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the socket is left: %v", err)
	}
}

func TestOtherSessionRevision(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	c := m.dial()
	defer c.Close()
	b := uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeHello})
	b = uapi.Append(b, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision + 1, Session: session.NewID()})
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(c)
	if err != nil || len(reply) != len(b) {
		t.Fatalf("%d bytes, %v: want the hub's HELLO, then the end", len(reply), err)
	}
}

// A master may leave the name of its session to the hub.
func TestSessionThatTheHubNames(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	conn, err := session.Open(m.dial(), session.ID{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Abort(nil)
	if id := conn.ID(); id == (session.ID{}) || id == m.id {
		t.Errorf("its id is %v", id)
	}
	if err := conn.Send(uapi.TypeBind, 1, []byte("mod")); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(testTimeout, func() { conn.Abort(nil) })
	defer late.Stop()
	if f, err := conn.Read(); err != nil || f.Type != uapi.TypeBound {
		t.Errorf("its first answer is %v, %v", f.Type, err)
	}
}

func TestUnusableListenAddresses(t *testing.T) {
	w := newWorld(t, nil)
	for listen, want := range map[string]string{
		w.hub.Address().String(): "stop what uses that port",
		"192.0.2.1:0":            "an address that this machine has",
	} {
		_, err := Open(Config{State: t.TempDir(), Listen: listen})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestOneHubPerState(t *testing.T) {
	w := newWorld(t, nil)
	_, err := Open(Config{State: w.hub.cfg.State, Listen: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), "another hub uses") {
		t.Fatalf("%v", err)
	}
	if _, err := NewClient(filepath.Join(t.TempDir(), "x")).Status(t.Context()); !errors.Is(err, ErrNoHub) {
		t.Fatalf("%v", err)
	}
}

func TestHubComesBack(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	w.startBoundMaster().call(5, nil)
	old := a.nextLease().Fence
	cfg := w.hub.cfg
	cfg.Listen = w.hub.Address().String()
	w.hub.Close()
	hub, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	// It may not have noticed yet that the first hub closed, and a message to that would be lost.
	waitUntil(t, "reconnect", func() bool { return a.nats.Stats().Reconnects > 0 && a.nats.IsConnected() })
	a.sendHello(1)
	a.askLeases(1)
	w.hub = hub
	w.startBoundMaster().call(6, nil)
	if l := a.nextLease(); l.Fence <= old {
		t.Fatalf("number %d after %d", l.Fence, old)
	}
}

func TestRenew(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	csr, err := a.node.CSR()
	if err != nil {
		t.Fatal(err)
	}
	renew := func(csr []byte) (*http.Response, []byte) {
		b, _ := jsonBytes(proto.Renew{CSR: csr})
		return a.request(http.MethodPost, proto.PathRenew, bytes.NewReader(b))
	}
	if resp, b := renew(csr); resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte("certificate")) {
		t.Fatalf("%s %s", resp.Status, b)
	}
	other, err := newNode(t).CSR()
	if err != nil {
		t.Fatal(err)
	}
	if resp, b := renew(other); resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%s %s", resp.Status, b)
	}
}

func TestSelect(t *testing.T) {
	nodes := []NodeInfo{
		{ID: "1", Name: "a", OS: "linux", Substrate: "linux", State: NodeUp, Free: 1},
		{ID: "2", Name: "b", OS: "windows", Substrate: "bee-windows", State: NodeUp, Free: 3},
		{ID: "3", Name: "c", OS: "linux", Substrate: "bee-linux", State: NodeDown, Free: 9},
	}
	for selector, want := range map[string]string{
		"any": "b", "all": "ab", "os=linux": "a", "os=windows": "b", "node=a": "a", "node=2": "b",
		"substrate=bee-windows": "b", "node=c": "", "os=plan9": "", "": "", "cpu=3": "",
	} {
		list, err := SelectNodes(nodes, selector)
		text := ""
		for _, n := range list {
			text += n.Name
		}
		if text != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", selector, text, err)
		}
	}
}

// A name has letters, digits and -_. only, and is never empty.
func TestNamesOfNodes(t *testing.T) {
	for want, name := range map[string]string{"": "node", "azAZ09-_.": "azAZ09-_.", "`{@[/:": "------", "a b\n\u00e9": "a-b--",
		strings.Repeat("x", 300): strings.Repeat("x", proto.NameMax-8)} {
		if got := nodeName(want); got != name {
			t.Errorf("%q is %q", want, got)
		}
	}
}

// A hub that opens no socket for a run is an error.
func TestRunWithoutSocket(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("unix", dir+"/hub.sock")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}\n") })}
	go s.Serve(l)
	defer s.Close()
	_, stream, err := NewClient(dir+"/hub.sock").Run(t.Context(), RunRequest{})
	if stream != nil || err == nil || !strings.Contains(err.Error(), "opened no socket") {
		t.Errorf("%v, %v", stream, err)
	}
}
