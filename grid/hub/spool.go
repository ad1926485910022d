// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"skep/grid/proto"
	"skep/internal/lockdep"
)

// spoolMemory is how much of a call's data stays in memory; more goes to a file
// without a name, which the system frees even if the hub is killed. A result that a later hub
// has to find has a name: stored.go.
const spoolMemory = 1 << 20

// spoolMax bounds the length that a peer may announce.
const spoolMax = proto.DataMax

// A spooler makes spools. Together those in memory stay below limit; beyond it
// even small ones go to files.
type spooler struct {
	dir   string
	limit int64
	used  atomic.Int64

	filesMax int64 // others need descriptors too
	files    atomic.Int64
	create   func(dir, pattern string) (*os.File, error) // tests make it fail
	removed  func(path string)                           // of a file that a later hub would have found; or nil
}

// A spool holds the bytes of one transfer: arguments or a result. One writer
// appends; any number of readers follow, also while bytes still arrive. The lock
// guards all below it. Its creator has a reference; readers get one each.
type spool struct {
	from   *spooler
	name   string   // pattern of the file that holds it, even after the hub was killed, or ""
	want   int64    // bytes that will come; if open, finish sets it
	open   bool     // the length is unknown: at most want
	quotas []*quota // where kept bytes are reserved until the last put
	kept   int64

	mu       sync.Mutex
	moved    chan struct{} // closed and created again at each change
	mem      []byte
	file     *os.File
	left     bool // the file still has a name
	size     int64
	sum      hash.Hash // nil: no digest is made
	digest   [32]byte
	finished bool
	err      error
	refs     int
}

var errSpoolGone = errors.New("the data was dropped")

// newSpool creates a spool for want bytes, which count towards each of the quotas.
func (p *spooler) newSpool(want uint64, quotas ...*quota) (*spool, error) {
	return p.createSpool(&spool{want: int64(want)}, want, quotas)
}

// newArguments creates a spool for arguments. Those in a file have no digest: the hub's own agent
// needs none, and for others sendArgs makes it of what it reads.
func (p *spooler) newArguments(want uint64, quotas ...*quota) (*spool, error) {
	s, err := p.newSpool(want, quotas...)
	if err == nil && s.file != nil {
		s.sum = nil
	}
	return s, err
}

// newUnbounded creates a spool for a transfer of unknown length.
func (p *spooler) newUnbounded(most uint64, quotas ...*quota) (*spool, error) {
	return p.createSpool(&spool{want: int64(most), open: true}, most, quotas)
}

// newNamed creates a spool whose file a later hub finds: stored.go. open: want is only the
// most that may come.
func (p *spooler) newNamed(name string, want uint64, open bool, quotas ...*quota) (*spool, error) {
	return p.createSpool(&spool{want: int64(want), open: open, name: name}, want, quotas)
}

func (p *spooler) createSpool(s *spool, want uint64, quotas []*quota) (*spool, error) {
	if want > spoolMax {
		return nil, fmt.Errorf("%d bytes exceed the limit of a transfer", want)
	}
	if err := reserveAll(quotas, want); err != nil {
		return nil, err
	}
	s.from, s.quotas, s.kept, s.refs = p, quotas, int64(want), 1
	s.sum, s.moved = sha256.New(), make(chan struct{})
	made, err := p.allocate(s)
	if err != nil {
		s.release()
	}
	return made, err
}

// allocate puts a spool into memory or into a file.
func (p *spooler) allocate(s *spool) (*spool, error) {
	if want := s.want; want <= spoolMemory && !s.open && s.name == "" {
		if p.used.Add(s.want) <= p.limit {
			s.mem = make([]byte, 0, want)
			return s, nil
		}
		p.used.Add(-s.want)
	}
	return p.allocateFile(s)
}

func (p *spooler) allocateFile(s *spool) (*spool, error) {
	if n := p.files.Add(1); p.filesMax > 0 && n > p.filesMax {
		p.files.Add(-1)
		return nil, fmt.Errorf("%d transfers wait on the hub's disk already: wait for some calls first, or raise the limit of open files (ulimit -n)", n-1)
	}
	create := p.create
	if create == nil {
		create = os.CreateTemp
	}
	pattern := ".spool-*"
	if s.name != "" {
		pattern = s.name
	}
	f, err := create(p.dir, pattern)
	if err != nil {
		p.files.Add(-1)
		return nil, diskFull(p.dir, err)
	}
	s.file = f
	s.left = s.name != "" || os.Remove(f.Name()) != nil // Windows keeps the name of an open file
	return s, nil
}

// diskFull adds the directory, and what to do, to the error of a full disk.
func diskFull(dir string, err error) error {
	if noSpace(err) {
		return fmt.Errorf("the hub's disk is full: free some space in %s, or give another --state: %w", dir, err)
	}
	return err
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func (s *spool) notify() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// Write appends. A failure is permanent, and readers get it too. The lock is not held during
// disk writes, because readers hold other locks while they wait for it.
func (s *spool) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return 0, s.err
	case s.finished || int64(len(b)) > s.want-s.size:
		return 0, s.fail(fmt.Errorf("more than the %d bytes that were announced", s.want))
	}
	if s.file == nil {
		s.mem = append(s.mem, b...)
	} else if err := s.writeFile(b); err != nil {
		return 0, err
	}
	if s.sum != nil {
		s.sum.Write(b)
	}
	s.size += int64(len(b))
	s.notify()
	return len(b), nil
}

// writeFile is called with the lock held, and unlocks it meanwhile. Only the
// one writer changes size, and it holds the file.
func (s *spool) writeFile(b []byte) error {
	lockdep.AssertHeld(&s.mu)
	at := s.size
	s.mu.Unlock()
	_, err := s.file.WriteAt(b, at)
	s.mu.Lock()
	if err != nil {
		return s.fail(diskFull(s.from.dir, err))
	}
	return s.err // it may have been aborted meanwhile
}

// fail is called with the lock held.
func (s *spool) fail(err error) error {
	lockdep.AssertHeld(&s.mu)
	if s.err == nil && !s.finished {
		s.err = err
		s.notify()
	}
	return err
}

// abort ends a transfer that will not be complete.
func (s *spool) abort(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// finish marks the last byte as written.
func (s *spool) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.want, s.open = s.size, false
	}
	if s.err == nil && s.size != s.want {
		s.fail(fmt.Errorf("%d of %d bytes came", s.size, s.want))
	}
	if s.err == nil && !s.finished {
		s.finished = true
		if s.sum != nil {
			s.sum.Sum(s.digest[:0])
		}
		s.notify()
	}
	return s.err
}

// complete returns the digest, if it has one, if all bytes have arrived.
func (s *spool) complete() (digest [32]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.digest, s.finished
}

// bytes returns the content of a complete spool in memory, without a copy.
func (s *spool) bytes() ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem, s.finished && s.file == nil
}

// get takes a reference, until put. It returns false if the bytes are gone already.
func (s *spool) get() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs == 0 {
		return false
	}
	s.refs++
	return true
}

func (s *spool) put() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs--; s.refs > 0 {
		return
	}
	s.release()
	s.fail(errSpoolGone)
	if s.file != nil {
		s.from.files.Add(-1)
		s.file.Close()
		if s.left {
			os.Remove(s.file.Name())
		}
		if s.name != "" && s.from.removed != nil {
			s.from.removed(s.file.Name())
		}
		return
	}
	s.mem = nil
	s.from.used.Add(-s.want)
}

// release returns its bytes to the quotas.
func (s *spool) release() {
	for _, q := range s.quotas {
		q.release(s.kept)
	}
	s.quotas = nil
}

// reader follows the spool from its beginning until the last byte.
func (s *spool) reader(ctx context.Context) *spoolReader { return &spoolReader{s: s, ctx: ctx} }

type spoolReader struct {
	s   *spool
	ctx context.Context
	at  int64
}

func (r *spoolReader) Read(b []byte) (int, error) {
	for {
		n, moved, err := r.s.readAt(b, r.at)
		r.at += int64(n)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		select {
		case <-moved:
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
}

// await waits until n more bytes are in the spool's file, which it returns, or nil if there is none.
func (r *spoolReader) await(n int64) (*os.File, error) {
	for {
		r.s.mu.Lock()
		file, have, moved, err := r.s.file, r.s.ready()-r.at, r.s.moved, r.s.err
		if err == nil && have < n && r.s.finished {
			err = io.ErrUnexpectedEOF
		}
		r.s.mu.Unlock()
		if file == nil || err != nil {
			return nil, err
		}
		if have >= n {
			return file, nil
		}
		select {
		case <-moved:
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
	}
}

// ready returns how many bytes readers may have. Before the writer says that all were right, it
// lacks the last one: a call whose arguments turn out to be unreadable must not run, and the result
// of one that is being sent must not arrive.
func (s *spool) ready() int64 {
	lockdep.AssertHeld(&s.mu)
	if !s.finished && !s.open && s.size == s.want && s.size > 0 {
		return s.size - 1
	}
	return s.size
}

// readAt returns available bytes; nothing and no error means: wait for `moved`.
func (s *spool) readAt(b []byte, at int64) (int, <-chan struct{}, error) {
	s.mu.Lock()
	left, file := s.ready()-at, s.file
	moved, err := s.moved, s.err
	if left == 0 && s.finished {
		err = io.EOF
	}
	if left == 0 || err != nil {
		s.mu.Unlock()
		return 0, moved, err
	}
	if int64(len(b)) > left {
		b = b[:left]
	}
	if file == nil {
		defer s.mu.Unlock()
		return copy(b, s.mem[at:]), moved, nil
	}
	s.mu.Unlock() // what is written does not change; the reader holds the file
	n, err := file.ReadAt(b, at)
	return n, moved, err
}

// failure returns why the bytes will never be complete, or nil.
func (s *spool) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// empty reports whether a read would wait.
func (r *spoolReader) empty() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.at == r.s.ready() && !r.s.finished && r.s.err == nil
}
