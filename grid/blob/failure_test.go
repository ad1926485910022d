// SPDX-License-Identifier: MIT

package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Open reports a directory that it cannot use.
func TestOpenErrors(t *testing.T) {
	for name, want := range map[string]string{".": "cannot clean up", "sha256": "cannot be made"} {
		dir := filepath.Join(t.TempDir(), "store")
		file := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(file), 0o700)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is a file: %v", name, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	openStore(t, dir, 0)
	for _, name := range []string{"sha256", "tmp"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The order of last use and the limit hold across a restart.
func TestRestartKeepsTheOrder(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 0)
	var all []string
	for i, text := range []string{"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"} {
		d := putText(t, s, text, "")
		when := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(s.pathOf(d), when, when); err != nil {
			t.Fatal(err)
		}
		all = append([]string{d}, all...)
	}
	if err := os.Mkdir(s.pathOf(digestOf([]byte("a folder"))), 0o700); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, 30)
	if got := s.List(); !slices.Equal(got, all) || s.total != 30 {
		t.Errorf("%q, %d bytes, want %q", got, s.total, all)
	}
	if !s.Has(all[2]) {
		t.Error("the oldest is gone")
	}
	s = openStore(t, dir, 29)
	s.Unpin("nobody") // pins of before are not there yet
	if n := len(s.List()); n != 3 {
		t.Fatalf("%d blobs are left before anything was pinned again", n)
	}
	s.Pin(all[0], "one")
	s.Unpin("one")
	if got, want := s.List(), []string{all[2], all[0]}; !slices.Equal(got, want) || s.total != 20 {
		t.Errorf("%q, %d bytes, want %q", got, s.total, want)
	}
}

// A damaged blob is forgotten at once. A dropped blob is removed even if it is pinned.
func TestDamagedAndDropped(t *testing.T) {
	dir := t.TempDir()
	d := putText(t, openStore(t, dir, 0), "torn", "")
	s := openStore(t, dir, 0)
	os.Chmod(s.pathOf(d), 0o600)
	os.WriteFile(s.pathOf(d), []byte("to"), 0o600)
	for name, err := range map[string]error{"Size": readSizeError(s, d), "Open": readOpenError(s, d)} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a damaged blob: %v", name, err)
		}
	}
	if _, err := os.Stat(s.pathOf(d)); err == nil || len(s.List()) != 0 || s.total != 0 {
		t.Errorf("it is still there: %v, %d bytes", s.List(), s.total)
	}
	putText(t, s, "torn", "owner")
	s.Drop(digestOf(nil))
	s.Drop(d)
	if _, err := os.Stat(s.pathOf(d)); err == nil || s.Has(d) || len(s.List()) != 0 {
		t.Errorf("it is still there: %v", s.List())
	}
}

func readSizeError(s *Store, digest string) error { _, err := s.Size(digest); return err }
func readOpenError(s *Store, digest string) error { _, err := s.Open(digest); return err }

// A blob whose file cannot be removed stays, and is not replaced.
func TestBlobInUse(t *testing.T) {
	dir := t.TempDir()
	d := putText(t, openStore(t, dir, 0), "text", "")
	s := openStore(t, dir, 0)
	os.Remove(s.pathOf(d))
	if err := os.MkdirAll(filepath.Join(s.pathOf(d), "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Drop(d)
	if len(s.List()) != 1 || s.total != 4 {
		t.Errorf("%v, %d bytes", s.List(), s.total)
	}
	if _, _, err := s.Put(strings.NewReader("text"), ""); err == nil || !strings.Contains(err.Error(), "is in use and cannot be replaced") {
		t.Errorf("%v", err)
	}
	os.RemoveAll(s.pathOf(d)) // a file that is already gone is no error
	s.Drop(d)
	if len(s.List()) != 0 {
		t.Errorf("%v", s.List())
	}
}

// A draft whose file is lost or closed does not become a blob.
func TestLostDrafts(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	lost := func(do func(d *draft)) *draft {
		d, err := s.newDraft()
		if err != nil {
			t.Fatal(err)
		}
		do(d)
		return d
	}
	closed := func(d *draft) { d.file.Close() }
	if err := s.commitDraft(lost(func(d *draft) { os.Remove(d.file.Name()) })); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("removed: %v", err)
	}
	if err := s.commitDraft(lost(closed)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := lost(closed).restart(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed, then begun again: %v", err)
	}
	os.RemoveAll(s.dir)
	if _, _, err := s.Put(strings.NewReader("text"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory of blobs: %v", err)
	}
	if err := s.scan(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a start without a directory of blobs: %v", err)
	}
	os.RemoveAll(s.tmp)
	if _, _, err := s.Put(strings.NewReader("text"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory of drafts: %v", err)
	}
	if len(s.List()) != 0 {
		t.Errorf("%v", s.List())
	}
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if !errors.Is(s.explainError(err), ErrFull) {
			t.Errorf("%v is no full disk", err)
		}
	}
}

// serveAnswers answers each request by the next function of list, then always by the
// last one.
func serveAnswers(t *testing.T, list ...func(w http.ResponseWriter, r *http.Request)) (*httptest.Server, *atomic.Int32) {
	asked := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list[min(int(asked.Add(1)), len(list))-1](w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

func answerStatus(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// answerBroken sends 10 bytes of 100.
func answerBroken(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	(&cutting{w, 10}).Write(make([]byte, 100))
}

// How each answer affects the next request, and what the caller gets.
func TestFetchAnswers(t *testing.T) {
	want := "0123456789abc"
	sendAll := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, want) }
	other := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 7-12/13")
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, want[7:])
	}
	for _, c := range []struct {
		name   string
		list   []func(http.ResponseWriter, *http.Request)
		asked  int32
		wanted string // text of the error
	}{
		{"it is gone", []func(http.ResponseWriter, *http.Request){answerStatus(410)}, 1, "does not have it"},
		{"it is not there", []func(http.ResponseWriter, *http.Request){answerStatus(404)}, 1, "does not have it"},
		{"a refusal without a text", []func(http.ResponseWriter, *http.Request){answerStatus(403)}, 1, "the server answered 403 Forbidden"},
		{"a server that fails once", []func(http.ResponseWriter, *http.Request){answerStatus(500), sendAll}, 2, ""},
		{"a server that fails", []func(http.ResponseWriter, *http.Request){answerStatus(500)}, 4, "was not received: the server answered 500"},
		{"bytes, then failures", []func(http.ResponseWriter, *http.Request){answerStatus(500), answerStatus(500), answerStatus(500), answerBroken, answerStatus(500)}, 8, "was not received"},
		{"another length", []func(http.ResponseWriter, *http.Request){answerBroken, answerStatus(416), sendAll}, 3, ""},
		{"only another length", []func(http.ResponseWriter, *http.Request){answerStatus(416)}, 4, "another length"},
		{"another part", []func(http.ResponseWriter, *http.Request){answerBroken, other, other, other, other, other}, 5, "was not received"},
	} {
		s := openStore(t, t.TempDir(), 0)
		s.pause = time.Millisecond
		srv, asked := serveAnswers(t, c.list...)
		_, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf([]byte(want)))
		if asked.Load() != c.asked || (err == nil) != (c.wanted == "") || err != nil && !strings.Contains(err.Error(), c.wanted) {
			t.Errorf("%s: %v after %d requests, want %q after %d", c.name, err, asked.Load(), c.wanted, c.asked)
		}
		if s.Has(digestOf([]byte(want))) != (err == nil) || len(listDrafts(t, s)) != 0 || len(s.flights) != 0 {
			t.Errorf("%s: held %v, drafts %v, flights %v", c.name, s.List(), listDrafts(t, s), s.flights)
		}
	}
}

// A server that sends nothing is given up after stallAfter; every byte restarts the time.
func TestStalledFetch(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	if s.stallAfter != 30*time.Second {
		t.Errorf("a server may be silent for %v", s.stallAfter)
	}
	s.stallAfter, s.pause = 20*time.Millisecond, time.Millisecond
	srv, asked := serveAnswers(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := s.Fetch(t.Context(), srv.Client(), srv.URL, digestOf(nil)); err == nil || !strings.Contains(err.Error(), "no data came for 20ms") || asked.Load() > 4 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
	for text, want := range map[string]bool{"x": true, "": false} {
		stall := time.AfterFunc(time.Hour, func() {})
		stall.Stop()
		io.ReadAll(&watched{strings.NewReader(text), stall, time.Hour})
		if stall.Stop() != want {
			t.Errorf("%q: the time begins again: %v", text, !want)
		}
	}
}

// A request that cannot be made is not tried again, and a blob that arrived meanwhile is
// not requested.
func TestFetchWithoutRequests(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	if _, err := s.Fetch(t.Context(), http.DefaultClient, "http://[", digestOf(nil)); err == nil || strings.Contains(err.Error(), "was not received") {
		t.Errorf("no address: %v", err)
	}
	if _, err := s.Fetch(t.Context(), nil, "", "no digest"); !errors.Is(err, ErrDigest) {
		t.Errorf("no digest: %v", err)
	}
	f := &flight{done: make(chan struct{})}
	if n, err := s.fetchFirst(t.Context(), nil, "", putText(t, s, "there", ""), f); n != 0 || err != nil {
		t.Errorf("it is there: %d, %v", n, err)
	}
	<-f.done
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.flights[digestOf(nil)] = &flight{done: make(chan struct{})}
	if _, err := s.Fetch(gone, nil, "", digestOf(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits for another and gives up: %v", err)
	}
}

// A caller that is cancelled during the pause before the next try gets that error.
func TestFetchGivenUp(t *testing.T) {
	s := openStore(t, t.TempDir(), 0)
	s.pause = time.Hour
	gone, cancel := context.WithCancel(t.Context())
	srv, _ := serveAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		time.AfterFunc(50*time.Millisecond, cancel)
	})
	if _, err := s.Fetch(gone, srv.Client(), srv.URL, digestOf(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
