// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/ident"
)

// moveTo replaces the hub by one whose state was restored.
func (w *world) moveTo(backup []byte) {
	w.t.Helper()
	cfg := w.hub.cfg
	w.hub.Close()
	cfg.State = filepath.Join(shortDir(w.t), "hub")
	cfg.Spool = filepath.Join(cfg.State, "spool")
	if _, old, err := Restore(w.t.Context(), bytes.NewReader(backup), cfg.State, false); err != nil || old != "" {
		w.t.Fatalf("%q, %v", old, err)
	}
	next, err := Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(next.Close)
	w.hub, w.cli = next, NewClient(next.ControlSocket())
}

// ledger returns the entries of the ledger, of which there must be so many.
func (w *world) ledger(want int) (list []engine.Entry) {
	w.t.Helper()
	waitUntil(w.t, "the ledger", func() bool {
		var err error
		if list, err = w.cli.Ledger(w.t.Context(), LedgerQuery{Last: ledgerMax}); err != nil {
			w.t.Fatal(err)
		}
		return len(list) == want
	})
	return list
}

// A hub that is made from a backup knows its nodes, its tokens, whom it removed and what it
// recorded, and gives no number that the first hub can have given.
func TestBackupIsRestored(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	gone := w.startAgent(1)
	if err := w.hub.RemoveNode(gone.node.ID()); err != nil {
		t.Fatal(err)
	}
	token := w.createToken(1, time.Hour)
	m.call(7, nil)
	first := a.nextLease()
	a.sendDone(first, []byte("one"))
	m.readResult(7)
	before := w.ledger(3)
	backup := w.backUp()
	m.raw.Close()
	w.moveTo(backup)

	if got := w.ledger(3); !slices.EqualFunc(got, before, func(x, y engine.Entry) bool { return x.Time.Equal(y.Time) && x.Call == y.Call && x.State == y.State }) {
		t.Errorf("%v\nis the ledger, not\n%v", got, before)
	}
	err := filepath.WalkDir(w.hub.cfg.State, func(path string, e fs.DirEntry, err error) error {
		if i, err := os.Lstat(path); err == nil && i.Mode().IsRegular() && strings.Contains(path, "key") && i.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, i.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.returnAgent(1)
	again := w.startBoundMaster()
	again.call(7, nil)
	l := a.nextLease()
	if l.Fence <= first.Fence+numbersEach*1000 || l.Call <= first.Call+numbersEach*1000 {
		t.Errorf("lease %d of call %d follows %d of %d", l.Fence, l.Call, first.Fence, first.Call)
	}
	a.sendDone(l, []byte("two"))
	if _, got := again.readResult(7); string(got) != "two" {
		t.Errorf("%q", got)
	}
	if w.hub.roster.isKnown(gone.node.ID()) || !w.hub.roster.isRemoved(gone.node.ID()) {
		t.Error("a node that was removed is known")
	}
	if _, err := w.postJoin(token, newNode(t), nil); err != nil {
		t.Errorf("a token of before: %v", err)
	}
}

// A large ledger is in several parts.
func TestBackupOfALongLedger(t *testing.T) {
	w := newWorld(t, nil)
	const n = 2500
	var list []engine.Entry
	for i := range n {
		list = append(list, engine.Entry{Time: time.Unix(int64(i), 0), Call: uint64(i + 1), State: engine.Done})
	}
	if err := w.hub.engine.Record(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	w.moveTo(w.backUp())
	for i, e := range w.ledger(n) {
		if e.Call != uint64(i+1) {
			t.Fatalf("entry %d is of call %d", i, e.Call)
		}
	}
}

// Backups that are made while nodes join are each of one moment: no node is in them whose token
// is unused.
func TestBackupsWhileNodesJoin(t *testing.T) {
	w := newWorld(t, nil)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 20 {
			w.join()
		}
	}()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		dir := filepath.Join(t.TempDir(), "hub")
		if _, err := unpackTo(t, w.backUp(), dir); err != nil {
			t.Fatal(err)
		}
		if nodes, used := countJoined(t, dir); nodes > used {
			t.Errorf("%d nodes joined with %d tokens", nodes, used)
		}
	}
	r, err := openRoster(filepath.Join(w.hub.cfg.State, rosterFile))
	if err != nil || len(r.list) != 20 {
		t.Errorf("%d nodes, %v", len(r.list), err)
	}
}

// countJoined returns how many nodes a state directory has, and how many tokens are used up.
func countJoined(t *testing.T, dir string) (nodes, used int) {
	t.Helper()
	r, err := openRoster(filepath.Join(dir, rosterFile))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := ident.OpenTokens(dir, [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := tokens.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if v.Uses == 0 {
			used++
		}
	}
	return len(r.list), used
}

func unpackTo(t *testing.T, backup []byte, dir string) (BackupInfo, error) {
	t.Helper()
	info, _, err := Restore(t.Context(), bytes.NewReader(backup), dir, false)
	return info, err
}

// An existing state is replaced only when that is asked for, and only while no hub has it. It
// keeps all that it had.
func TestRestoreOverAState(t *testing.T) {
	w := newWorld(t, nil)
	backup := w.backUp()
	state := w.hub.cfg.State
	try := func(replace bool, want string) {
		t.Helper()
		if _, _, err := Restore(t.Context(), bytes.NewReader(backup), state, replace); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	try(true, "a hub uses "+state+": stop it first")
	w.hub.Close()
	try(false, "--replace renames it")
	if err := os.WriteFile(filepath.Join(state, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := backup
	backup = backup[:len(backup)/2]
	try(true, "cut off")
	backup = cut
	if b, err := os.ReadFile(filepath.Join(state, "mine")); err != nil || string(b) != "x" {
		t.Errorf("a restore that failed changed the state: %q, %v", b, err)
	}
	info, old, err := Restore(t.Context(), bytes.NewReader(backup), state, true)
	if err != nil || !strings.HasPrefix(old, state+".before-") || info.Time.IsZero() {
		t.Fatalf("%+v, %q, %v", info, old, err)
	}
	defer os.RemoveAll(old)
	if b, err := os.ReadFile(filepath.Join(old, "mine")); err != nil || string(b) != "x" {
		t.Errorf("the state of before: %q, %v", b, err)
	}
	next, err := Open(w.hub.cfg)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}
