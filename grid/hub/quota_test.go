// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// putAs announces n bytes of result and sends b.
func (a *fakeAgent) putAs(l fakeLease, n uint64, b []byte) (int, string) {
	a.w.t.Helper()
	r, err := http.NewRequest(http.MethodPut, "https://"+a.w.hub.Address().String()+proto.PathResult(l.Call, l.Fence),
		io.MultiReader(bytes.NewReader(b)))
	if err != nil {
		a.w.t.Fatal(err)
	}
	if n > 0 {
		r.Header.Set(lengthHeader, fmt.Sprint(n))
	}
	resp, err := a.http.Do(r)
	if err != nil {
		a.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func (m *fakeMaster) callFor(call uint64, args []byte, result uint64) {
	m.t.Helper()
	m.send(uapi.TypeCall, call, uapi.Append(nil, uapi.Call{Module: m.module, Length: uint64(len(args)), Result: result}))
	m.sendData(call, args)
}

// The holder of a lease may send only as much as the call's interface allows.
func TestResultIsBoundedByItsInterface(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 1<<20)
	l := a.nextLease()
	if l.Result != 1<<20 {
		t.Fatalf("the lease allows %d bytes", l.Result)
	}
	for _, n := range []uint64{1 << 48, 1<<20 + 1} {
		status, text := a.putAs(l, n, nil)
		if status != http.StatusBadRequest || !strings.Contains(text, fmt.Sprintf("has %d bytes where its interface", n)) {
			t.Errorf("%d bytes were announced: %d %s", n, status, text)
		}
	}
	if status, text := a.putAs(l, 0, randomBytes(1<<20+1)); status != http.StatusBadRequest || !strings.Contains(text, "more than") {
		t.Errorf("one byte more without a length: %d %s", status, text)
	}
	if left := w.hub.quota.used.Load(); left != 0 {
		t.Errorf("%d bytes are counted for results that were refused", left)
	}
	result := randomBytes(1 << 20)
	if status, text := a.putAs(l, 1<<20, result); status != http.StatusNoContent {
		t.Fatalf("the whole result: %d %s", status, text)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	if _, b := m.readResult(5); !bytes.Equal(b, result) {
		t.Errorf("%d bytes came", len(b))
	}
	m.callFor(6, nil, 3)
	a.askLeases(1)
	a.sendDone(a.nextLease(), []byte("four"))
	e := m.waitForEvent("the refusal", func(e Event) bool { return e.State == CallRequeued })
	if !strings.Contains(e.Text, "has 4 bytes where its interface") {
		t.Errorf("an inline result: %q", e.Text)
	}
}

// One of the quotas is too small for two calls of 600 kB at a time.
func TestQuotas(t *testing.T) {
	for name, c := range map[string]struct {
		quotas Quotas
		whose  string
	}{
		"session": {Quotas{Hub: 1 << 30, Session: 1 << 20}, "this session"},
		"hub":     {Quotas{Hub: 1 << 20, Session: 1 << 30}, "the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.quotas.Node = 1 << 20
			w, m, a := newTrio(t, func(cfg *Config) { cfg.Quotas = c.quotas }, 1)
			m.callFor(5, randomBytes(600000), 1)
			m.callFor(6, randomBytes(600000), 1)
			e := m.readFailure(6)
			want := fmt.Sprintf("600 kB is more than the quota of %s leaves, which is 1.0 MB in all: "+
				"wait for some calls first, or start the hub with a larger --quota-%s", c.whose, name)
			if e.Code != uapi.ERefused || !strings.Contains(e.Text, want) {
				t.Errorf("%v %s", e.Code, e.Text)
			}
			other := w.startBoundMaster()
			other.callFor(5, randomBytes(600000), 1)
			if name == "hub" {
				other.readFailure(5)
			}
			m.callFor(7, nil, 2<<20)
			if e := m.readFailure(7); !strings.Contains(e.Text, "the result of the call cannot be taken") {
				t.Errorf("a result that is too large for ever: %s", e.Text)
			}
			m.send(uapi.TypeModuleInit, 8, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: 2 << 20}))
			if e := m.readFailure(8); !strings.Contains(e.Text, "in all: start the hub with a larger --quota-") {
				t.Errorf("data of Initialize: %s", e.Text)
			}
			m.sendData(8, make([]byte, 2<<20))
			a.sendDone(a.nextLease(), nil)
			m.readResult(5)
			m.callFor(6, randomBytes(600000), 1)
			a.askLeases(1)
			if l := a.nextLease(); l.Length != 600000 {
				t.Errorf("after a result: %+v", l.Lease)
			}
		})
	}
}

// When a session ends, all of its quota is free again, including the data of Initialize.
func TestQuotaIsGivenBack(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	data := randomBytes(2 << 20)
	m.send(uapi.TypeModuleInit, 2, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: uint64(len(data))}))
	m.sendData(2, data)
	m.nextFrame(uapi.TypeDone, 2)
	m.callFor(5, data, 1)
	m.sendHeader(6, 1000) // whose data never comes
	waitUntil(t, "what is held", func() bool { return w.hub.quota.used.Load() == 4<<20+1000 })
	m.conn.Close()
	waitUntil(t, "nothing", func() bool { return w.hub.quota.used.Load() == 0 })
}

// One node's results stay within its quota, however much its leases allow.
func TestQuotaOfNode(t *testing.T) {
	_, m, a := newTrio(t, func(c *Config) { c.Quotas = Quotas{Hub: 1 << 30, Node: 3 << 20} }, 2)
	m.callFor(5, nil, 2<<20)
	m.callFor(6, nil, 2<<20)
	first, second := a.nextLease(), a.nextLease()
	result := randomBytes(2 << 20)
	if status, text := a.putAs(first, 2<<20, result); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	status, text := a.putAs(second, 2<<20, result)
	if status != http.StatusInsufficientStorage || !strings.Contains(text, "the quota of node ") || !strings.Contains(text, "--quota-node") {
		t.Errorf("%d %s", status, text)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(first, result, false), nil)
	m.readResult(5)
	waitUntil(t, "room", func() bool { s, _ := a.putAs(second, 2<<20, result); return s == http.StatusNoContent })
	a.sendVerb(proto.VerbDone, a.doneOf(second, result, false), nil)
	m.readResult(6)
}

// onFullDisk returns /dev/full by a link that may be removed.
func onFullDisk(dir, _ string) (*os.File, error) {
	fd, err := syscall.Open("/dev/full", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), filepath.Join(dir, "full")), err
}

// A full disk counts as a failed attempt. When there is space again, the call runs.
func TestFullDiskLosesNothing(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 4<<20)
	l := a.nextLease()
	w.hub.spools.create = onFullDisk
	result := randomBytes(3 << 20)
	status, text := a.putAs(l, 3<<20, result)
	if status != http.StatusInsufficientStorage || !strings.Contains(text, "the hub's disk is full: free some space in") {
		t.Fatalf("%d %s", status, text)
	}
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonTransfer, Text: "the result could not be sent"}, nil)
	m.waitForEvent("the call back in its queue", func(e Event) bool { return e.State == CallRequeued })
	m.callFor(6, randomBytes(2<<20), 1)
	if e := m.readFailure(6); !strings.Contains(e.Text, "the hub's disk is full") {
		t.Errorf("a call that cannot be kept: %s", e.Text)
	}
	w.hub.spools.create = nil
	w.clock.advance(11 * time.Second)
	a.askLeases(1)
	l = a.nextLease()
	if status, text := a.putAs(l, 3<<20, result); l.Attempt != 2 || status != http.StatusNoContent {
		t.Fatalf("attempt %d: %d %s", l.Attempt, status, text)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	if _, b := m.readResult(5); !bytes.Equal(b, result) {
		t.Errorf("%d bytes", len(b))
	}
}
