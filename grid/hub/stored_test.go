// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// copyResults copies the files of results, which alone outlive a hub's spool.
func copyResults(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range storedFiles(from) {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func storedFiles(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "result-*"))
	return names
}

// putResult sends a result and announces it as change leaves the message.
func (a *fakeAgent) putResult(l fakeLease, result []byte, change func(*proto.Done)) {
	a.w.t.Helper()
	if status, text := a.putAs(l, uint64(len(result)), result); status != http.StatusNoContent {
		a.w.t.Fatalf("the result: %d %s", status, text)
	}
	v := a.doneOf(l, result, false)
	if change != nil {
		change(&v)
	}
	a.sendVerb(proto.VerbDone, v, nil)
}

// readAll reads a RESULT and its data, of several frames.
func (r *rawMaster) readAll(call uint64) (uapi.Result, []byte) {
	r.t.Helper()
	f := r.read()
	for f.Type == uapi.TypeAck {
		f = r.read()
	}
	if f.Type != uapi.TypeResult || f.Call != call {
		r.t.Fatalf("no result: %v %s", f.Type, f.Payload)
	}
	v, err := uapi.DecodeExact[uapi.Result](f.Payload)
	if err != nil {
		r.t.Fatal(err)
	}
	r.got += uint64(uapi.FrameSize + len(f.Payload))
	var b []byte
	for !f.Last() {
		f = r.read()
		r.got += uint64(uapi.FrameSize + len(f.Payload))
		b = append(b, f.Payload...)
	}
	return v, b
}

// A result that is in a file is sent by the next hub, and by each hub after it, until its
// master acknowledges all of it. Nobody runs the call again, whether its node is there or not.
func TestResultIsStored(t *testing.T) {
	w, m, a := newTrio(t, func(c *Config) { c.Keep, c.Grace = true, testTimeout }, 1)
	result := randomBytes(proto.InlineMax + 1)
	m.call(7, randomBytes(proto.InlineMax+1))
	l := a.nextLease()
	m.raw.Close() // it reads nothing
	a.putResult(l, result, nil)
	m.waitForEvent("the result", func(e Event) bool { return e.State == CallDone })
	var r *rawMaster
	for range 2 {
		w.crash(nil)
		if n := w.hub.quota.used.Load(); n != int64(len(result)) {
			t.Errorf("%d bytes count, %v", n, storedFiles(w.hub.cfg.Spool))
		}
		r = w.returnMaster(m)
		r.call(7, randomBytes(proto.InlineMax+1))
		v, got := r.readAll(7)
		if !bytes.Equal(got, result) || v.ExecNS != 7 || v.Attempt != 1 || v.Program == [32]byte{} || v.Node == [64]byte{} {
			t.Errorf("%d bytes came with %+v", len(got), v)
		}
		a.returnAgent(1)
	}
	events, err := w.cli.RunAgain(t.Context(), m.events)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	w.hub.endReturn()
	if len(storedFiles(w.hub.cfg.Spool)) != 1 {
		t.Fatal("a result is not kept until its master has it")
	}
	r.send(uapi.TypeAck, 0, 0, binary.LittleEndian.AppendUint64(nil, r.got))
	waitUntil(t, "the end of the file", func() bool {
		return len(storedFiles(w.hub.cfg.Spool)) == 0 && w.hub.quota.used.Load() == 0
	})
	r.call(8, nil)
	if next := a.nextLease(); next.Client != 8 {
		t.Errorf("call %d was run again", next.Client)
	}
}

// A hub is killed while a result that no message can hold arrives, or before the message that
// announces it. The call was not accepted as done: when the time to come back is over it is run
// once more, what remains of its first run is refused, and its master gets one result.
func TestResultIsCutByTheHub(t *testing.T) {
	for _, sent := range []int{1, proto.InlineMax + 1} {
		t.Run(fmt.Sprintf("after %d bytes", sent), func(t *testing.T) {
			w, m, a := newTrio(t, keepRuns, 1)
			m.call(7, []byte("args"))
			first := a.nextLease()
			result := randomBytes(proto.InlineMax + 1)
			if status, text := a.putAs(first, uint64(len(result)), result[:sent]); (status == http.StatusNoContent) != (sent == len(result)) {
				t.Fatalf("%d %s", status, text)
			}
			w.crash(nil)
			r := w.returnMaster(m)
			r.call(7, []byte("args"))
			a.returnAgent(1) // its worker's bytes are gone, so it carries nothing
			events, err := w.cli.RunAgain(t.Context(), m.events)
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			w.hub.endReturn()
			second := a.nextLease()
			if second.Client != 7 || second.Fence <= first.Fence {
				t.Fatalf("after %+v came %+v", first.Lease, second.Lease)
			}
			if status, text := a.putAs(first, uint64(len(result)), result); status != http.StatusConflict {
				t.Errorf("the first run's result: %d %s", status, text)
			}
			a.sendVerb(proto.VerbDone, a.doneOf(first, result, false), nil)
			a.putResult(second, result, nil)
			if _, got := r.readAll(7); !bytes.Equal(got, result) {
				t.Errorf("%d bytes came, not %d", len(got), len(result))
			}
			a.putAs(second, uint64(len(result)), result)
			a.sendVerb(proto.VerbDone, a.doneOf(second, result, false), nil)
			a.askLeases(1)
			r.call(8, nil)
			a.sendDone(a.nextLease(), []byte("next"))
			if got := r.readData(8); got != "next" { // and not call 7 again
				t.Errorf("%q", got)
			}
		})
	}
}

// A result counts once it was checked, for a session that comes back. All other files go.
func TestWhatIsNotAStoredResult(t *testing.T) {
	for what, change := range map[string]func(*proto.Done){
		"no message": nil,
		"a lie":      func(v *proto.Done) { v.Digest = strings.Repeat("0", 64) },
		"unsafe":     func(v *proto.Done) { v.Substrate = "bee-linux" },
	} {
		t.Run(what, func(t *testing.T) {
			w, m, a := newTrio(t, keepRuns, 1)
			m.call(7, nil)
			l := a.nextLease()
			result := randomBytes(proto.InlineMax + 1)
			names := storedFiles(w.hub.cfg.Spool)
			if change == nil {
				a.putAs(l, uint64(len(result)), result)
			} else {
				a.putResult(l, result, change)
				m.waitForEvent("the refusal", func(e Event) bool { return e.State == CallRequeued || e.State == CallCancelled })
			}
			if names = storedFiles(w.hub.cfg.Spool); len(names) != map[bool]int{true: 1, false: 0}[change == nil] {
				t.Errorf("%q are left", names)
			}
			w.crash(nil)
			if names := storedFiles(w.hub.cfg.Spool); len(names) != 0 || len(w.hub.stored) != 0 {
				t.Errorf("%q were restored", names)
			}
		})
	}
	w, m, _ := newTrio(t, keepRuns, 1)
	seal := append(uapi.Append(nil, uapi.Result{Length: 3}), sealMagic...)
	key := w.hub.masters[1].key
	files := map[string]string{
		"result-" + key + "-7-1":                      "abc" + string(seal), // the only one that is good
		"result-" + key + "-8-1":                      "abcd" + string(seal),
		"result-" + key + "-9-1":                      "abc" + string(seal[:len(seal)-1]) + "x",
		"result-" + key + "-10-1":                     "",
		"result-" + key + "-99999999999999999999-1":   "abc" + string(seal),
		"result-" + strings.Repeat("0", 32) + "-11-1": "abc" + string(seal),
		"result-of-somebody-else":                     "abc",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.hub.cfg.Spool, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.crash(nil)
	if names := storedFiles(w.hub.cfg.Spool); len(names) != 2 || !strings.HasSuffix(names[0], "-7-1") || !strings.HasSuffix(names[1], "somebody-else") {
		t.Errorf("%q are kept", names)
	}
	r := w.returnMaster(m)
	r.send(uapi.TypeBye, 0, 0, nil)
	waitUntil(t, "the end of a session's results", func() bool {
		return len(storedFiles(w.hub.cfg.Spool)) == 1 && w.hub.quota.used.Load() == 0
	})
}

// A hub that stores no runs stores no results, and a small one needs no file.
func TestResultsWithoutAFile(t *testing.T) {
	for _, keep := range []bool{false, true} {
		w, m, a := newTrio(t, func(c *Config) { c.Keep = keep }, 2)
		for call, n := range map[uint64]int{7: proto.InlineMax, 8: proto.InlineMax + 1} {
			m.call(call, nil)
			result := randomBytes(n)
			a.putAs(a.nextLease(), uint64(n), result)
			want := 0
			if keep && n > proto.InlineMax {
				want = 1
			}
			if names := storedFiles(w.hub.cfg.Spool); len(names) != want {
				t.Errorf("keep %v, %d bytes: %q", keep, n, names)
			}
			for _, name := range storedFiles(w.hub.cfg.Spool) {
				os.Remove(name)
			}
		}
	}
}

// A full disk refuses a result by name when it is sealed, as when its bytes come.
func TestDiskIsFullAtTheSeal(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 1)
	m.call(7, nil)
	l := a.nextLease()
	result := randomBytes(proto.InlineMax + 1)
	if status, text := a.putAs(l, uint64(len(result)), result); status != http.StatusNoContent {
		t.Fatalf("the result: %d %s", status, text)
	}
	_, held := w.hub.leaseOf(a.node.ID(), sched.CallID(l.Call), sched.Fence(l.Fence))
	full, err := onFullDisk(w.hub.cfg.Spool, "")
	if err != nil {
		t.Fatal(err)
	}
	file := held.result.file
	held.result.file = full
	defer file.Close()
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	e := m.waitForEvent("the refusal", func(e Event) bool { return e.State == CallRequeued })
	if want := fmt.Sprintf("the hub's disk is full: free some space in %s", w.hub.cfg.Spool); !strings.Contains(e.Text, want) {
		t.Errorf("%q", e.Text)
	}
}
