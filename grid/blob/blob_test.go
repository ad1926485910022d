// SPDX-License-Identifier: MIT

package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/internal/lockdep"
)

func init() { lockdep.Enabled = true }

func openStore(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	s, err := Open(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func digestOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func putText(t *testing.T, s *Store, text, owner string) string {
	t.Helper()
	d, n, err := s.Put(strings.NewReader(text), owner)
	if err != nil || d != digestOf([]byte(text)) || n != int64(len(text)) {
		t.Fatalf("put %q: %s, %d, %v", text, d, n, err)
	}
	return d
}

// listDrafts lists the directory of drafts.
func listDrafts(t *testing.T, s *Store) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir(s.tmp)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPutThenOpen(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	d := putText(t, s, "hello", "")
	putText(t, s, "hello", "")
	f, err := s.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "hello" {
		t.Fatalf("%q, %v", b, err)
	}
	if n, err := s.Size(d); n != 5 || err != nil || !s.Has(d) {
		t.Fatalf("%d, %v", n, err)
	}
	if info, err := os.Stat(s.pathOf(d)); err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	if _, err := s.Path(digestOf(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent: %v", err)
	}
	for _, bad := range []string{"", "../../etc/passwd", strings.ToUpper(d), d + "0"} {
		if _, err := s.Open(bad); !errors.Is(err, ErrDigest) {
			t.Fatalf("%q: %v", bad, err)
		}
	}
}

func TestConcurrentPutsOfOneBlob(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	text := strings.Repeat("x", 1<<20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { putText(t, s, text, "") })
	}
	wg.Wait()
	if len(s.List()) != 1 || s.total != 1<<20 || len(listDrafts(t, s)) != 0 {
		t.Fatalf("%v, %d bytes, %d drafts", s.List(), s.total, len(listDrafts(t, s)))
	}
}

func TestLimitSparesThePinned(t *testing.T) {
	s := openStore(t, t.TempDir(), 30)
	a := putText(t, s, strings.Repeat("a", 10), "owner")
	b := putText(t, s, strings.Repeat("b", 10), "")
	c := putText(t, s, strings.Repeat("c", 10), "")
	s.Has(b) // now c is the least recently used blob that is not pinned
	d := putText(t, s, strings.Repeat("d", 10), "")
	if got := s.List(); !slices.Equal(got, []string{d, b, a}) || s.Has(c) {
		t.Fatalf("%v", got)
	}
	s.Pin(b, "one")
	s.Pin(b, "two")
	s.Unpin("one")
	e := putText(t, s, strings.Repeat("e", 30), "")
	if got := s.List(); !slices.Equal(got, []string{e, b, a}) {
		t.Fatalf("%v", got)
	}
	s.Unpin("two") // now the store shrinks to its limit; a is still pinned
	if got := s.List(); !slices.Equal(got, []string{a}) || s.total != 10 {
		t.Fatalf("after unpinning: %v, %d", got, s.total)
	}
}

func TestDiscardSparesThePinned(t *testing.T) {
	s := openStore(t, t.TempDir(), 100)
	a := putText(t, s, strings.Repeat("a", 10), "owner")
	b := putText(t, s, strings.Repeat("b", 10), "owner")
	c := putText(t, s, strings.Repeat("c", 10), "")
	s.Pin(a, "other")
	s.Discard("owner")
	if got := s.List(); !slices.Equal(got, []string{c, a}) || s.Has(b) || s.total != 20 {
		t.Fatalf("%v, %d", got, s.total)
	}
	if s.Discard("other"); !slices.Equal(s.List(), []string{c}) {
		t.Fatalf("%v", s.List())
	}
}

func TestCrashLeavesNothingWrong(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	good, torn := putText(t, s, "good", ""), putText(t, s, "torn", "")
	if _, err := s.newDraft(); err != nil {
		t.Fatal(err)
	}
	os.Chmod(s.pathOf(torn), 0o600)
	os.WriteFile(s.pathOf(torn), []byte("to"), 0o600)
	os.WriteFile(filepath.Join(s.dir, "stranger"), nil, 0o600)
	s = openStore(t, dir, 0)
	if len(listDrafts(t, s)) != 0 {
		t.Fatal("a draft survived")
	}
	if !s.Has(good) || s.Has(torn) {
		t.Fatalf("good %v, torn %v", s.Has(good), s.Has(torn))
	}
	putText(t, s, "torn", "")
	if !s.Has(torn) || len(s.List()) != 2 {
		t.Fatalf("%v", s.List())
	}
}

type limited struct{ n int }

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.n {
		return l.n, &fs.PathError{Op: "write", Err: syscall.ENOSPC}
	}
	l.n -= len(b)
	return len(b), nil
}

func TestDiskFullIsNamed(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	s.sink = func(*os.File) io.Writer { return &limited{10} }
	_, _, err := s.Put(strings.NewReader("more than ten bytes"), "o")
	if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Dir(s.dir)) {
		t.Fatalf("%v", err)
	}
	if len(listDrafts(t, s)) != 0 || len(s.List()) != 0 {
		t.Fatal("something is left")
	}
	if _, _, err := s.Put(io.MultiReader(strings.NewReader("abc"), failing{}), ""); err != errSource || len(listDrafts(t, s)) != 0 {
		t.Fatalf("a source that fails: %v", err)
	}
}

var errSource = errors.New("source")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errSource }

// serveContent serves content and counts requests. It cuts the connection after cut
// bytes of each answer (0: never).
func serveContent(t *testing.T, content []byte, cut int) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	asked := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if cut > 0 {
			w = &cutting{w, cut}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if len(b) > c.left {
		c.ResponseWriter.Write(b[:c.left])
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

func makeContent(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestFetchResumes(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	want := makeContent(1 << 20)
	srv, asked := serveContent(t, want, 300<<10)
	n, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(want))
	if err != nil || n != uint64(len(want)) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if asked.Load() != 4 || !s.Has(digestOf(want)) {
		t.Fatalf("%d requests", asked.Load())
	}
	if n, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(want)); n != 0 || err != nil || asked.Load() != 4 {
		t.Fatalf("again: %d bytes, %v", n, err)
	}
}

func TestOneFetchPerBlob(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	want := makeContent(4 << 20)
	srv, asked := serveContent(t, want, 0)
	var bytes atomic.Uint64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(want))
			if err != nil {
				t.Error(err)
			}
			bytes.Add(n)
		})
	}
	wg.Wait()
	if asked.Load() != 1 || bytes.Load() != uint64(len(want)) {
		t.Fatalf("%d requests, %d bytes", asked.Load(), bytes.Load())
	}
}

func TestFollowerOutlivesLeader(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	want := []byte("late")
	entered, free := make(chan struct{}, 2), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-free:
		case <-r.Context().Done():
		}
		w.Write(want)
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		_, err := s.Fetch(ctx, srv.Client(), srv.URL, digestOf(want))
		results <- err
	}()
	<-entered
	go func() {
		_, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(want))
		results <- err
	}()
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Fatalf("the leader: %v", err)
	}
	close(free)
	if err := <-results; err != nil {
		t.Fatalf("the follower: %v", err)
	}
}

func TestFetchRefuses(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	srv, asked := serveContent(t, []byte("other bytes"), 0)
	var m *Mismatch
	if _, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf([]byte("these"))); !errors.As(err, &m) || asked.Load() != 1 {
		t.Fatalf("wrong bytes: %v, %d requests", err, asked.Load())
	}
	status := 404
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"code":"x","text":"ask the owner"}`)
	}))
	defer bad.Close()
	if _, err := s.Fetch(t.Context(), bad.Client(), bad.URL, digestOf(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("404: %v", err)
	}
	status = 403
	if _, err := s.Fetch(t.Context(), bad.Client(), bad.URL, digestOf(nil)); err == nil || !strings.Contains(err.Error(), "ask the owner") {
		t.Fatalf("403: %v", err)
	}
	s.sink = func(*os.File) io.Writer { return &limited{3} }
	if _, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf([]byte("other bytes"))); !errors.Is(err, ErrFull) {
		t.Fatalf("full disk: %v", err)
	}
	if len(s.List()) != 0 || len(listDrafts(t, s)) != 0 {
		t.Fatal("something is left")
	}
}

// If an answer breaks off and the next one is shorter, no bytes of the first remain.
func TestShorterSecondAnswerIsWhole(t *testing.T) {
	for _, want := range []string{"", "abc"} {
		s := openStore(t, t.TempDir(), 0)
		first := true
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if first {
				first = false
				w.Header().Set("Content-Length", "100")
				(&cutting{w, 10}).Write(make([]byte, 100))
			}
			fmt.Fprint(w, want) // ignores the requested range
		}))
		defer srv.Close()
		if _, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf([]byte(want))); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(s.pathOf(digestOf([]byte(want)))); err != nil || string(b) != want {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
	}
}

func TestFetchGivesUp(t *testing.T) {
	t.Parallel() // Fetch pauses between its tries
	s := openStore(t, t.TempDir(), 0)
	asked := atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(500)
	}))
	defer srv.Close()
	if _, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(nil)); err == nil || asked.Load() != 4 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}

func TestFollowerGetsTheLeadersError(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	ended := &flight{done: make(chan struct{}), err: errSource}
	close(ended.done)
	s.flights[digestOf(nil)] = ended
	ctx, cancel := load.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Fetch(ctx, nil, "", digestOf(nil)); err != errSource {
		t.Errorf("%v", err)
	}
}

func TestCauseOfAnEndedFetch(t *testing.T) {
	stalled, other := errors.New("stalled"), errors.New("other")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := cause(ctx, other); err != other {
		t.Errorf("while it goes on: %v", err)
	}
	cancel(stalled)
	if err := cause(ctx, other); err != stalled {
		t.Errorf("stalled: %v", err)
	}
	if err := cause(ctx, nil); err != nil {
		t.Errorf("all came: %v", err)
	}
}
