// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// withState returns a lease whose worker is initialized with state.
func (r *rig) withState(state []byte, function uint32, args string) proto.Lease {
	l := r.makeLease(function, []byte(args))
	inline.Store(l.Digest, []byte(args))
	l.Init = &proto.Init{Function: fnInitialize, Blob: r.publishBlob(state), Length: uint64(len(state))}
	l.Worker.Init = "generation"
	return l
}

// publishBlob puts bytes into the hub's store and into the agent's cache.
func (r *rig) publishBlob(b []byte) string {
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	if _, known := r.fake.origin.Swap(digest, b); !known {
		r.cache.put(r.t, b)
	}
	return digest
}

// poisonFiles makes a worker of another session write to a file, or to all files of a directory.
// The worker's user owns them, and nothing confines it here.
func (r *rig) poisonFiles(path string, files int) {
	r.t.Helper()
	guest, err := guestPath(r.work, path)
	if err != nil {
		r.t.Fatal(err)
	}
	l := r.makeLease(fnPoison, []byte(guest))
	inline.Store(l.Digest, []byte(guest))
	l.Session = "attacker"
	if got, _ := r.mustSucceed(r.send(l)); string(got) != fmt.Sprint(files) {
		r.t.Fatalf("the attacker wrote to %s files and not to %d: nothing was tested", got, files)
	}
}

// A worker writes to the blobs of the cache. Later workers must still get the hub's program and
// the hub's data of Initialize.
func TestPoisonedCache(t *testing.T) {
	eachIn(t, 1, &bounds{Kind: ConfinedNot}, func(t *testing.T, r *rig) {
		r.publishBlob(r.program)
		state := bytes.Repeat([]byte("state "), 100)
		right := string(state) + "tail"
		compute := func(session string) {
			t.Helper()
			l := r.withState(state, fnState, "tail")
			l.Session = session
			if got, _ := r.mustSucceed(r.send(l)); string(got) != right {
				t.Errorf("%s computed with %.40q", session, got)
			}
		}
		compute("before")
		r.poisonFiles(filepath.Join(r.cache.dir, r.publishBlob(state)), 1)
		compute("after the data was changed")
		r.poisonFiles(r.cache.dir, 2)
		compute("after all was changed")
	})
}

// If a damaged blob cannot be fetched again, the error says what happened.
func TestDamagedBlobThatCannotBeFetchedAgain(t *testing.T) {
	eachIn(t, 1, &bounds{Kind: ConfinedNot}, func(t *testing.T, r *rig) {
		state := []byte("state")
		l := r.withState(state, fnState, "")
		r.fake.origin.Clear()
		r.poisonFiles(r.cache.dir, 2)
		l.Session = "victim"
		_, f, ok := r.waitForEnd(r.send(l))
		if ok || f.Reason != proto.ReasonNode || !strings.Contains(f.Text, "was changed by another program") {
			t.Errorf("%v %+v", ok, f)
		}
	})
}

// On Windows programs see their work directory, so bee's reports about them must not be there.
func TestReportsAreOutOfReach(t *testing.T) {
	r := newRig(t, beeProgram(t), 1)
	r.mustSucceed(r.start(fnEcho, nil))
	files, err := os.ReadDir(r.reports)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d reports (%v)", len(files), err)
	}
	if below, err := filepath.Rel(r.work, r.reports); err != nil || filepath.IsLocal(below) {
		t.Errorf("reports lie in %s, which guests see", r.reports)
	}
	for _, w := range r.pool.releaseSession("") {
		w.killAndWait()
	}
	waitUntil(t, "the removal of the report", func() bool {
		files, _ := os.ReadDir(r.reports)
		return len(files) == 0
	})
}
