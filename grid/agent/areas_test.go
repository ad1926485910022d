// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/blob"
	"skep/grid/proto"
)

const (
	userOne = "00112233445566aa"
	userTwo = "00112233445566bb"
)

// anyBee is the loader of workers where they need one.
func anyBee(t *testing.T) string {
	if systemIsWindows {
		return beeProgram(t)
	}
	return ""
}

// isBelow is isWithin for paths of this system.
func isBelow(path, dir string) bool {
	return isWithin(filepath.ToSlash(path), filepath.ToSlash(dir))
}

// The workers of users have caches and folders of their own, and idle ones pass from none to
// another.
func TestUsersAreApart(t *testing.T) {
	eachIn(t, 2, &bounds{Kind: ConfinedNot}, func(t *testing.T, r *rig) {
		r.publishBlob(r.program)
		for _, user := range []string{userOne, userTwo, ""} {
			l := r.makeLease(fnEcho, []byte("x"))
			inline.Store(l.Digest, []byte("x"))
			l.User, l.Session = user, "of"+user
			r.mustSucceed(r.send(l))
		}
		areas := map[string]*area{}
		for _, user := range []string{userOne, userTwo, ""} {
			p, err := r.areaOf(user)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(p.store.(fakeStore).dir, r.module)); err != nil {
				t.Errorf("user %q: %v", user, err)
			}
			for other, o := range areas {
				if isBelow(o.root, p.root) || isBelow(p.root, o.root) || p.logs == o.logs || isBelow(p.logs, o.root) {
					t.Errorf("users %q and %q share %+v and %+v", user, other, p, o)
				}
			}
			areas[user] = p
		}
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		for w := range r.pool.all {
			user := strings.TrimPrefix(w.session, "of")
			if !isBelow(w.dir, areas[user].tmp) {
				t.Errorf("a worker of user %q works in %s", user, w.dir)
			}
		}
		if n := len(r.pool.all); n < 2 {
			t.Errorf("%d workers are left: nothing was tested", n)
		}
	})
}

// The output of users is kept apart, so that none pushes out that of another, and is found by the
// session's name.
func TestOutputOfUsersIsApart(t *testing.T) {
	r := newRig(t, anyBee(t), 1)
	for _, user := range []string{userOne, userTwo} {
		p, err := r.areaOf(user)
		if err != nil {
			t.Fatal(err)
		}
		for range keptMax + 1 {
			k, err := newKeeper(p.logs, "session"+user)
			if err != nil {
				t.Fatal(err)
			}
			k.add("line of " + user)
			k.close()
			if user == userOne {
				break
			}
		}
	}
	var out bytes.Buffer
	if err := showKept(r.logFolders(), "session"+userOne, &out); err != nil || !strings.Contains(out.String(), "line of "+userOne) || strings.Contains(out.String(), userTwo+"\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}

// A hub cannot name a user whose folder is elsewhere.
func TestHostileNamesOfUsers(t *testing.T) {
	r := newRig(t, anyBee(t), 1)
	for _, user := range []string{"../../x", "00112233445566AA", "..", strings.Repeat("0", 17), "0011223344556/aa"} {
		l := r.makeLease(fnEcho, nil)
		l.User = user
		r.mustFail(r.send(l), proto.ReasonNode, "the hub names a user")
	}
	if list, _ := os.ReadDir(r.areas.dir); len(list) > 0 {
		t.Errorf("%v were made", list)
	}
}

// What a killed agent left of users' workers is removed at the start, and the cache of a user who
// has been away for long.
func TestOldAreasAreRemoved(t *testing.T) {
	r := newRig(t, anyBee(t), 1)
	for _, user := range []string{userOne, userTwo} {
		p, err := r.areaOf(user)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(p.tmp, "w1"), p.logs} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if user == userTwo {
			old := time.Now().Add(-areaAge - time.Hour)
			for _, dir := range []string{p.root, p.logs} {
				if err := os.Chtimes(dir, old, old); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := r.openAreas(r.areas.dir); err != nil {
		t.Fatal(err)
	}
	var left []string
	filepath.WalkDir(r.areas.dir, func(path string, _ os.DirEntry, _ error) error {
		name, _ := filepath.Rel(r.areas.dir, path)
		left = append(left, filepath.ToSlash(name))
		return nil
	})
	if want := []string{".", userOne, userOne + "/blobs", userOne + ".logs"}; !slices.Equal(left, want) {
		t.Errorf("%q is left, want %q", left, want)
	}
}

// A storingHub fetches into true stores.
type storingHub struct{ *fakeHub }

func (h storingHub) fetch(_ context.Context, digest string, into store) (uint64, error) {
	b, _ := h.origin.Load(digest)
	_, n, err := into.(*blob.Store).Put(bytes.NewReader(b.([]byte)), "")
	return uint64(n), err
}

// However many users there are, their caches have together at most the size of the agent's own. What
// was not used for longest goes first, also if it is of an earlier agent; what runs stays.
func TestCachesOfUsersAreBounded(t *testing.T) {
	r := newRig(t, anyBee(t), 1)
	r.hub = storingHub{r.fake}
	r.config.Cache = 40 << 10
	again, old := filepath.Join(r.areas.dir, "00112233445566ab"), filepath.Join(r.areas.dir, "00112233445566cc")
	for n, dir := range []string{again, old} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x"), make([]byte, n*20<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(n-2) * time.Hour)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.openAreas(r.areas.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.areaOf(filepath.Base(again)); err != nil { // its user calls again
		t.Fatal(err)
	}
	put := func(user string, size int, owner string) string {
		p, err := r.areaOf(user)
		if err != nil {
			t.Fatal(err)
		}
		b := bytes.Repeat([]byte(user[14:]), size/2)
		digest := fmt.Sprintf("%x", sha256.Sum256(b))
		r.fake.origin.Store(digest, b)
		if owner != "" {
			p.store.Pin(digest, owner)
		}
		if _, err := r.fetchInto(t.Context(), p, digest); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	has := func(user, digest string) bool {
		p, _ := r.areaOf(user)
		return p.store.(*blob.Store).Has(digest)
	}
	used := put("00112233445566dd", 9<<10, "a session")
	one := put(userOne, 8<<10, "")
	if _, err := os.Stat(old); err != nil {
		t.Errorf("there was room: %v", err)
	}
	two := put(userTwo, 10<<10, "")
	if _, err := os.Stat(old); err == nil || !has(userOne, one) {
		t.Errorf("the cache of an earlier agent stays, %v", err)
	}
	if _, err := os.Stat(again); err != nil {
		t.Errorf("the area of a user who calls was removed: %v", err)
	}
	three := put("00112233445566ee", 9<<10, "")
	four := put("00112233445566ff", 9<<10, "")
	if !has(userOne, one) || has(userTwo, two) || !has("00112233445566dd", used) || !has("00112233445566ee", three) || !has("00112233445566ff", four) {
		t.Errorf("left: %v %v, pinned %v, newest %v %v", has(userOne, one), has(userTwo, two), has("00112233445566dd", used), has("00112233445566ee", three), has("00112233445566ff", four))
	}
	// The next agent counts what this one left.
	r.config.Cache = 1
	if err := r.openAreas(r.areas.dir); err != nil {
		t.Fatal(err)
	}
	if n := areaBytes(r.areas.dir); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
