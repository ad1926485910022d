// SPDX-License-Identifier: MIT

// Package blob stores files by the SHA-256 of their contents: programs and the data of
// their Initialize. A stored blob is complete and correct: its digest is computed while
// it is written, and blobs of an earlier run are verified before their first use.
// Digests are 64 hex digits in lower case.
package blob

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/internal/lockdep"
)

// Errors of a store, besides fs.ErrNotExist for a blob that is not there.
var (
	ErrFull   = errors.New("the disk is full")
	ErrDigest = errors.New("this is not a SHA-256 digest of 64 hex digits")
)

// A Mismatch reports that a blob's bytes do not have its digest.
type Mismatch struct{ Want, Got string }

func (e *Mismatch) Error() string {
	return fmt.Sprintf("the data has digest %s, not %s: it was damaged on the way", e.Got, e.Want)
}

// A Store owns one directory; a second process must not use it. mu guards the
// fields below it, and the removal of files.
type Store struct {
	dir, tmp string
	limit    int64
	sink     func(*os.File) io.Writer // a hook by which tests make writes fail

	stallAfter, pause time.Duration // times of Fetch; tests shorten them

	mu      sync.Mutex
	blobs   map[string]*entry
	used    *list.List // of *entry, the most recently used in front
	total   int64
	pins    map[string]map[string]bool // digest, then owners
	flights map[string]*flight
}

type entry struct {
	digest string
	size   int64
	place  *list.Element
	check  *sync.Once // verifies a blob of an earlier run; nil: verified
	bad    error      // the result of check
}

// Open opens the directory and removes files that a crash left incomplete. If
// all blobs together have more than limit bytes, unpinned blobs are deleted,
// the least recently used first; 0 means no limit. Pins are not stored, so none
// is deleted before the first Put, Fetch or end of a pin: until then the owner of
// the store pins again what it needs.
func Open(dir string, limit int64) (*Store, error) {
	s := &Store{dir: filepath.Join(dir, "sha256"), tmp: filepath.Join(dir, "tmp"), limit: limit,
		sink:       func(f *os.File) io.Writer { return f },
		stallAfter: stallAfter, pause: pause,
		blobs: map[string]*entry{}, used: list.New(),
		pins: map[string]map[string]bool{}, flights: map[string]*flight{}}
	if err := os.RemoveAll(s.tmp); err != nil {
		return nil, fmt.Errorf("the blob store cannot clean up: %w", err)
	}
	for _, d := range []string{s.dir, s.tmp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("the blob store cannot be made: %w", err)
		}
	}
	return s, s.scan()
}

func (s *Store) scan() error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var found []fs.FileInfo
	for _, f := range files {
		info, err := f.Info()
		if err == nil && info.Mode().IsRegular() && isDigest(f.Name()) {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, info := range found {
		s.insert(&entry{digest: info.Name(), size: info.Size(), check: &sync.Once{}})
	}
	return nil
}

func isDigest(digest string) bool {
	return len(digest) == 2*sha256.Size && strings.Trim(digest, "0123456789abcdef") == ""
}

func (s *Store) pathOf(digest string) string { return filepath.Join(s.dir, digest) }

// insert adds e as the most recently used entry. The caller holds s.mu.
func (s *Store) insert(e *entry) {
	lockdep.AssertHeld(&s.mu)
	e.place = s.used.PushFront(e)
	s.blobs[e.digest] = e
	s.total += e.size
}

// remove removes e and its file. The caller holds s.mu. On Windows a file that is in use
// may not be removable; then e stays.
func (s *Store) remove(e *entry) {
	lockdep.AssertHeld(&s.mu)
	if err := os.Remove(s.pathOf(e.digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.used.Remove(e.place)
	delete(s.blobs, e.digest)
	s.total -= e.size
}

// shrink removes unpinned blobs, but not keep, until the limit holds. The caller holds
// s.mu.
func (s *Store) shrink(keep *entry) {
	if s.limit > 0 {
		s.shrinkTo(s.limit, keep)
	}
}

func (s *Store) shrinkTo(limit int64, keep *entry) {
	lockdep.AssertHeld(&s.mu)
	for at := s.used.Back(); at != nil && s.total > limit; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e != keep && len(s.pins[e.digest]) == 0 {
			s.remove(e)
		}
	}
}

// Bytes is how much all blobs have together.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Trim removes unpinned blobs, the least recently used first, until all have at most limit bytes.
func (s *Store) Trim(limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shrinkTo(limit, nil)
}

// lookup returns the entry of a verified blob and marks it as the most recently used.
func (s *Store) lookup(digest string) (*entry, error) {
	if !isDigest(digest) {
		return nil, ErrDigest
	}
	s.mu.Lock()
	e := s.blobs[digest]
	if e != nil {
		s.used.MoveToFront(e.place)
	}
	s.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("blob %s: %w", digest, fs.ErrNotExist)
	}
	if e.check != nil {
		e.check.Do(func() { e.bad = s.verify(e) })
		if e.bad != nil {
			return nil, fmt.Errorf("blob %s: %w", digest, fs.ErrNotExist)
		}
	}
	now := time.Now()
	_ = os.Chtimes(s.pathOf(digest), now, now) // keeps the order of use across a restart
	return e, nil
}

// verify reads a blob of an earlier run and drops it if its digest is wrong: the machine
// may have lost power before the whole file was on the disk.
func (s *Store) verify(e *entry) error {
	f, err := os.Open(s.pathOf(e.digest))
	if err == nil {
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if got := hex.EncodeToString(h.Sum(nil)); err == nil && got != e.digest {
			err = &Mismatch{e.digest, got}
		}
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.blobs[e.digest] == e {
			s.remove(e)
		}
	}
	return err
}

// Has reports whether the blob is stored.
func (s *Store) Has(digest string) bool {
	_, err := s.lookup(digest)
	return err == nil
}

// Size returns a blob's size in bytes.
func (s *Store) Size(digest string) (int64, error) {
	e, err := s.lookup(digest)
	if err != nil {
		return 0, err
	}
	return e.size, nil
}

// Path returns the file of a blob, which must not be changed. It may be deleted
// at any time unless it is pinned.
func (s *Store) Path(digest string) (string, error) {
	if _, err := s.lookup(digest); err != nil {
		return "", err
	}
	return s.pathOf(digest), nil
}

// Open opens a blob for reading.
func (s *Store) Open(digest string) (*os.File, error) {
	if _, err := s.lookup(digest); err != nil {
		return nil, err
	}
	return os.Open(s.pathOf(digest))
}

// List lists the blobs, the most recently used first.
func (s *Store) List() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, 0, len(s.blobs))
	for at := s.used.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*entry).digest)
	}
	return all
}

// Pin keeps a blob, stored or not yet, until its owners unpin it.
func (s *Store) Pin(digest, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[digest] == nil {
		s.pins[digest] = map[string]bool{}
	}
	s.pins[digest][owner] = true
}

// Unpin removes all pins of an owner.
func (s *Store) Unpin(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := false
	for digest, owners := range s.pins {
		delete(owners, owner)
		if len(owners) == 0 {
			delete(s.pins, digest)
			ended = true
		}
	}
	if ended {
		s.shrink(nil)
	}
}

// Discard removes all pins of an owner, and the blobs that nobody else pins: it needed them once.
func (s *Store) Discard(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, owners := range s.pins {
		if !owners[owner] {
			continue
		}
		if delete(owners, owner); len(owners) > 0 {
			continue
		}
		delete(s.pins, digest)
		if e := s.blobs[digest]; e != nil {
			s.remove(e)
		}
	}
}

// UnpinOne removes an owner's pin of one blob.
func (s *Store) UnpinOne(digest, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := s.pins[digest]
	if !owners[owner] {
		return
	}
	if delete(owners, owner); len(owners) == 0 {
		delete(s.pins, digest)
		s.shrink(nil)
	}
}

// Drop removes a damaged blob, even if it is pinned, so that it can be put or fetched
// again. On Windows a file that is in use may not be removable; then the blob stays.
func (s *Store) Drop(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.blobs[digest]; e != nil {
		s.remove(e)
	}
}

// Put stores all of r and pins it for owner, unless owner is empty.
func (s *Store) Put(r io.Reader, owner string) (digest string, n int64, err error) {
	d, err := s.newDraft()
	if err != nil {
		return "", 0, err
	}
	defer d.discard()
	if _, err := io.Copy(d, r); err != nil {
		return "", d.n, err
	}
	digest = d.digest()
	if owner != "" {
		s.Pin(digest, owner)
	}
	return digest, d.n, s.commitDraft(d)
}

// A draft is a blob that is being written.
type draft struct {
	store *Store
	file  *os.File
	out   io.Writer
	sum   hash.Hash
	n     int64
}

func (s *Store) newDraft() (*draft, error) {
	f, err := os.CreateTemp(s.tmp, "draft-*")
	if err != nil {
		return nil, s.explainError(err)
	}
	return &draft{s, f, s.sink(f), sha256.New(), 0}, nil
}

func (d *draft) Write(b []byte) (int, error) {
	n, err := d.out.Write(b)
	d.sum.Write(b[:n])
	d.n += int64(n)
	return n, d.store.explainError(err)
}

func (d *draft) digest() string { return hex.EncodeToString(d.sum.Sum(nil)) }

func (d *draft) restart() error {
	d.sum.Reset()
	d.n = 0
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return d.file.Truncate(0)
}

func (d *draft) discard() {
	d.file.Close()
	os.Remove(d.file.Name())
}

// commitDraft renames a complete draft to its digest. Another writer may have stored the
// blob first.
func (s *Store) commitDraft(d *draft) error {
	digest := d.digest()
	// Blobs may be programs, so they are executable; they are never written to.
	err := os.Chmod(d.file.Name(), 0o500)
	if e := d.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return s.explainError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.blobs[digest]; old != nil {
		if old.check == nil {
			s.used.MoveToFront(old.place)
			return nil
		}
		s.remove(old)
		if s.blobs[digest] != nil {
			return fmt.Errorf("blob %s is in use and cannot be replaced: try again", digest)
		}
	}
	if err := os.Rename(d.file.Name(), s.pathOf(digest)); err != nil {
		return s.explainError(err)
	}
	e := &entry{digest: digest, size: d.n}
	s.insert(e)
	s.shrink(e)
	return nil
}

func (s *Store) explainError(err error) error {
	if err != nil && noSpace(err) {
		return fmt.Errorf("%w: free some space in %s (%w)", ErrFull, filepath.Dir(s.dir), err)
	}
	return err
}
