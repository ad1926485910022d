// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// What a hostile user tries with programs of another, with nodes and with the operator's rights.
func TestHostileUserPrograms(t *testing.T) {
	w := newWorld(t, nil)
	size := uint64(len(encodeManifest(t)))
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{Bytes: 2*size - 1})
	a := w.startAgent(2)
	p := ada.exec(a, nil)
	l := a.nextLease()
	c, _ := a.begin(l)
	ctx := t.Context()
	try := func(change func(*ExecRequest)) func() error {
		return func() error {
			v := ExecRequest{Node: a.node.ID(), Program: l.Worker.Module, Name: "mod"}
			change(&v)
			_, err := eve.cli.Exec(ctx, v, nil, io.Discard, io.Discard)
			return err
		}
	}
	send := func(body io.Reader) func() error {
		return func() error {
			resp, err := eve.cli.request(ctx, http.MethodPost, "/v1/programs", body)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
	}
	dynamic, cut := filepath.Join(t.TempDir(), "bad"), filepath.Join(t.TempDir(), "cut")
	for name, text := range map[string]string{dynamic: "no program", cut: elf.ELFMAG} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	attempts := []struct {
		what string
		try  func() error
		want string
	}{
		{"run what another sent", try(func(*ExecRequest) {}), "does not have this program of yours"},
		{"send a program of unknown size", send(io.MultiReader(strings.NewReader("x"))), "says how many"},
		{"send no program", func() error { _, err := eve.cli.Program(ctx, dynamic); return err }, "not a"},
		{"send an empty file", func() error { _, err := eve.cli.Program(ctx, os.DevNull); return err }, "not an ELF program"},
		{"send the first bytes of a program", func() error { _, err := eve.cli.Program(ctx, cut); return err }, "it ends within its headers"},
		{"cancel", func() error { _, err := eve.cli.CancelCall(ctx, l.Call); return err }, "no call that has not ended"},
		{"cancel a session", func() error { _, err := eve.cli.CancelCalls(ctx, l.Session); return err }, "no open session begins"},
		{"list a session", func() error { _, err := eve.cli.Calls(ctx, l.Session); return err }, "no open session begins"},
		{"read output", try(func(v *ExecRequest) { v.Logs, v.Session = true, l.Session }), "no session of yours"},
		{"move", try(func(v *ExecRequest) { v.Movable = true }), "without --movable"},
		{"checkpoint", try(func(v *ExecRequest) { v.Checkpoint = 1 }), "without --movable"},
		{"update a kernel", try(func(v *ExecRequest) { v.Update = "fix" }), "without --update"},
		{"limits that are none", try(func(v *ExecRequest) { v.Limits.Wall = -1 }), "not valid times"},
		{"no digest", try(func(v *ExecRequest) { v.Program = "../users.json" }), "not named by its digest"},
		{"many arguments", try(func(v *ExecRequest) { v.Args = []string{strings.Repeat("x", execArgs+1)} }), "too long"},
	}
	for _, c := range attempts {
		if err := c.try(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if v := eve.users(); v.Stored != 0 {
		t.Errorf("%d bytes of what was refused count", v.Stored)
	}
	first := eve.send()
	if _, err := eve.cli.Program(ctx, filepath.Join(w.dirs, "mod.rex")); err == nil || !strings.Contains(err.Error(), "the quota of user eve leaves") {
		t.Errorf("beyond the quota: %v", err)
	}
	if _, err := eve.cli.Exec(ctx, ExecRequest{Node: "nobody", Program: first}, nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "not up") {
		t.Errorf("%v", err)
	}
	if v, err := eve.cli.Calls(ctx, ""); err != nil || v.All != 0 {
		t.Errorf("eve sees %+v, %v", v, err)
	}
	// Streams are for the node that has the lease: a user, who has no node's certificate, is refused.
	if _, _, err := eve.cli.switchTo(ctx, proto.PathExec(l.Exec.ID, l.Fence), nil); err == nil || !strings.Contains(err.Error(), "operator") {
		t.Errorf("%v", err)
	}
	proto.WriteExec(c, proto.ExecStdout, []byte("right"))
	proto.WriteExec(c, proto.ExecExit, exitFrame(0))
	a.sendDone(l, nil)
	if v := receiveFrom(t, "the end", p.ended); v.err != nil || v.out != "right" {
		t.Errorf("%+v", v)
	}
	ada.noCalls()
}

// A program has at most 1 GiB. One of that size is refused by a smaller quota alone.
func TestLargestProgram(t *testing.T) {
	w := newWorld(t, nil)
	eve := w.addUser("eve", Terms{Bytes: 1})
	for n, want := range map[int64]string{
		1<<30 + 1: "at most 1073741824 bytes", -1: "at most 1073741824 bytes", 1 << 30: "than the quota of user eve leaves",
	} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/programs", strings.NewReader(""))
		r.ContentLength = n
		w.hub.storeProgram(answer, r, viewer{user: eve.id})
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%d bytes: %s, want %q", n, answer.Body, want)
		}
	}
}

// Nobody opens programs without end, and an agent that does not know them gets none.
func TestUserProgramsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	old := w.join()
	old.connect()
	old.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: 2, Boot: "b", Apart: true})
	digest := ada.send()
	_, err := w.hub.newProgram("x", ExecRequest{Node: old.node.ID(), Program: digest}, viewer{user: ada.id})
	if err == nil || !strings.Contains(err.Error(), "update its agent") {
		t.Errorf("%v", err)
	}
	a := w.startAgent(1)
	var list []*execution
	for n := range mastersMax {
		x, err := w.hub.newProgram(string(rune('A'+n)), ExecRequest{Node: a.node.ID(), Program: digest}, viewer{user: ada.id})
		if err != nil {
			t.Fatal(n, err)
		}
		list = append(list, x)
	}
	if _, err := w.hub.newProgram("one more", ExecRequest{Node: a.node.ID(), Program: digest}, viewer{user: ada.id}); err == nil || !strings.Contains(err.Error(), "256 programs of yours run") {
		t.Errorf("%v", err)
	}
	// The agent is replaced by an older one.
	l := a.nextLease()
	a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: 1, Boot: "c", Apart: true})
	a.askLeases(1)
	waitUntil(t, "the end of the first that gets the slot", func() bool {
		for _, x := range list {
			select {
			case <-x.answered:
				return true
			default:
			}
		}
		return false
	})
	if len(a.leases) != 0 {
		t.Errorf("the older agent got %+v after %+v", a.nextLease().Lease, l.Lease)
	}
	for _, x := range list {
		w.hub.endExec(x.id, x)
	}
	ada.noCalls()
}

// A program is kept while it waits or runs, and no longer than it may.
func TestSentProgramExpires(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(1)
	size := uint64(len(encodeManifest(t)))
	p := ada.exec(a, nil)
	l := a.nextLease()
	key := sentKey{ada.id, l.Worker.Module}
	first := w.hub.sent[key]
	ada.send()
	if v := ada.users(); v.Stored != size {
		t.Errorf("the same program counts twice: %d", v.Stored)
	}
	w.hub.expireSent(key, first) // was replaced
	w.hub.expireSent(key, w.hub.sent[key])
	if v := ada.users(); v.Stored != size {
		t.Errorf("a program that runs is dropped: %d", v.Stored)
	}
	c, _ := a.begin(l)
	proto.WriteExec(c, proto.ExecFailed, []byte("no room"))
	var x *ExecError
	if v := receiveFrom(t, "the end", p.ended); !errors.As(v.err, &x) || x.Kind != proto.ExecFailed || x.Text != "no room" {
		t.Errorf("%+v", v)
	}
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonError, Code: uapi.EBadModule, Text: "no room"}, nil)
	ada.noCalls()
	waitUntil(t, "the quota of a program that ended", func() bool { return ada.users().Stored == 0 }) // it is given back after the program was forgotten
	if len(w.hub.sent) != 0 {
		t.Errorf("%d programs stay", len(w.hub.sent))
	}
	ada.send()
	w.hub.expireSent(key, w.hub.sent[key])
	if v := ada.users(); v.Stored != 0 {
		t.Errorf("%d bytes of one that was never run stay", v.Stored)
	}
}

// The command line of an earlier version does not say how long a program is. It counts once it is
// stored.
func TestOperatorsProgramOfUnknownSize(t *testing.T) {
	w := newWorld(t, nil)
	send := func() error {
		resp, err := w.cli.request(t.Context(), http.MethodPost, "/v1/programs", io.MultiReader(bytes.NewReader(encodeManifest(t))))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	size, before := int64(len(encodeManifest(t))), w.hub.quota.used.Load()
	if err := send(); err != nil || w.hub.quota.used.Load() != before+size {
		t.Errorf("%v, %d bytes are counted, not %d", err, w.hub.quota.used.Load()-before, size)
	}
	w.hub.quota.set.Store(before + size + 1)
	if err := send(); err == nil || !strings.Contains(err.Error(), "cannot be stored") || w.hub.quota.used.Load() != before+size {
		t.Errorf("%v, %d bytes are counted", err, w.hub.quota.used.Load()-before)
	}
	w.hub.quota.set.Store(before + 4*size)
	if err := send(); err != nil || w.hub.quota.used.Load() != before+size { // in place of the first one
		t.Errorf("%v, %d bytes are counted for what was sent twice", err, w.hub.quota.used.Load()-before)
	}
}
