// SPDX-License-Identifier: MIT

package rolls

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// A node that cannot store how far it has seen the audit log obeys no order, and says why.
// What it has seen is what is stored.
func TestSeenThatCannotBeStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := openFollower(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &Growth{Now: trust.Seen{Lines: 1, Root: strings.Repeat("a", digestHex)}}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := f.follow(g); err == nil || !strings.Contains(err.Error(), "audit log cannot be stored") || f.at.Lines != 0 {
		t.Errorf("without a folder: %v, at %+v", err, f.at)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.follow(g); err != nil || f.at != g.Now {
		t.Errorf("with a folder: %v, at %+v", err, f.at)
	}
	if at, err := ReadSeen(f.file); err != nil || at != g.Now {
		t.Errorf("the file: %+v, %v", at, err)
	}
}

// A disk that is full while a package is written fails this package alone: the agent stays
// connected, and the next message follows.
func TestPackageOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full: ", err)
	}
	h := &Host{}
	for _, size := range []int64{1, 100, 64 << 10} {
		text := strings.Repeat("x", int(size)) + "next"
		w := newWire(&pipeConn{in: strings.NewReader(text)})
		var f packageFile
		err := h.store(w, "/dev/full", size, &f)
		rest, _ := io.ReadAll(w.in)
		if err != nil || f.err == nil || string(rest) != "next" {
			t.Errorf("%d bytes: %v; %v; %.20q follows", size, f.err, err, rest)
		}
	}
	w := newWire(&pipeConn{in: strings.NewReader("ab")})
	var f packageFile
	if err := h.store(w, "/dev/full", 3, &f); err == nil {
		t.Error("a package that was cut does not end the connection")
	}
}

// After a damaged record was forgotten, the hub lists no roll, and one of its name may begin.
func TestDamagedRecordIsForgotten(t *testing.T) {
	f := newFleet(t, "a")
	dir := filepath.Join(f.dir, "hub")
	for _, name := range []string{"fix", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name+extension), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.open()
	for i, name := range []string{"fix", "other"} {
		if err := f.hub.Act("user:7:test", name, ActionForget); err != nil {
			t.Fatal(err)
		}
		if _, err := f.hub.List(name); !errors.Is(err, ErrNoRoll) {
			t.Errorf("%s, which was forgotten: %v", name, err)
		}
		if list, err := f.hub.List(""); err != nil || len(list) != 1-i {
			t.Errorf("after %s: %+v, %v", name, list, err)
		}
	}
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
}

// A roll that was forgotten is in no list, and no node is told of it or answered.
func TestForgottenRoll(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	if err := f.hub.Act("user:7:test", "fix", ActionForget); err != nil {
		t.Fatal(err)
	}
	if list, err := f.hub.List(""); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.hub.List("fix"); !errors.Is(err, ErrNoRoll) {
		t.Error(err)
	}
	if p := f.hub.Packages(); len(p) > 0 {
		t.Errorf("its package is still needed: %v", p)
	}
	f.now = f.now.Add(time.Hour)
	if list := f.hub.Unheard("a"); len(list) > 0 {
		t.Errorf("a node is told of %+v", list)
	}
	if err := f.hub.Act("user:7:test", "fix", ActionForget); !errors.Is(err, ErrNoRoll) {
		t.Errorf("once more: %v", err)
	}
}

// The longest line is read, and one byte more is refused by its size.
func TestLongestLineOnTheWire(t *testing.T) {
	read := func(n int) error {
		line := `{"error":"` + strings.Repeat("x", n-len(`{"error":""}`+"\n")) + `"}` + "\n"
		w := newWire(&pipeConn{in: strings.NewReader(line)})
		_, err := w.read()
		return err
	}
	if err := read(128 << 10); err != nil {
		t.Errorf("131072 bytes: %v", err)
	}
	if err := read(128<<10 + 1); err == nil || !strings.Contains(err.Error(), "a line above 131072 bytes") {
		t.Errorf("131073 bytes: %v", err)
	}
}

// A relay keeps 64 orders for a host that is not there, drops the others without a wait, and
// passes them on in their order.
func TestOrdersWaitForTheHost(t *testing.T) {
	r := NewRelay("", nil, nil, t.Logf)
	for i := range 70 {
		r.Take(Order{Order: roll.Order{Stamp: time.Duration(i)}})
	}
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan error, 1)
	go func() { done <- r.serve(t.Context(), newWire(near)) }()
	lines := bufio.NewScanner(far)
	for i := range 64 {
		var m message
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil || m.Order == nil || m.Order.Order.Stamp != time.Duration(i) {
			t.Fatalf("message %d is %q", i, lines.Text())
		}
	}
	go r.Take(Order{Order: roll.Order{Stamp: time.Hour}})
	var m message
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil || m.Order == nil || m.Order.Order.Stamp != time.Hour {
		t.Errorf("after 64 orders comes %q", lines.Text())
	}
	far.Close()
	if err := <-done; err == nil {
		t.Error("a connection that ended was served without an error")
	}
}

// A call that does not return stops a roll. The kernel does not revert the update for that, so the
// node does, again until it is done.
func TestRollStopsAtAStuckCall(t *testing.T) {
	f := newFleet(t, "a", "b", "c")
	f.begin(testSpec, "1,all")
	f.run("the first wave", func() bool { return f.nodes["a"].k.phase == roll.Full })
	k := f.nodes["a"].k
	k.refuse["revert"] = errors.New("the device is busy")
	k.stuck = "a call does not return: f: 1 stuck for more than 500 ms"
	reverts := 0
	f.run("a revert that is tried again", func() bool {
		k.state, reverts = OnTrial, len(strings.Split(strings.Join(k.did, " "), "revert"))-1
		return reverts > 2
	})
	delete(k.refuse, "revert")
	f.awaitState(roll.Stopped)
	if why := f.status().Why; why != "a: "+k.stuck || k.failed != k.stuck {
		t.Errorf("%q, blocked %q", why, k.failed)
	}
	f.run("the revert", func() bool { return k.state == Absent })
	if n := f.count(func(k *fakeKernel) bool { return k.state == OnTrial || k.state == Kept }); n != 0 {
		t.Errorf("%d nodes have the update", n)
	}
}
