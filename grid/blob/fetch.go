// SPDX-License-Identifier: MIT

package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

const (
	stallAfter = 30 * time.Second // time without a byte after which a try ends
	tries      = 4                // consecutive tries without a byte before Fetch fails
	pause      = 200 * time.Millisecond
)

// A flight is one download. Other callers that need the blob wait for done.
type flight struct {
	done chan struct{}
	err  error
}

// Fetch downloads a blob from url into the store and returns the number of bytes
// transferred: 0 if the blob was stored already or another caller was downloading it. It
// resumes a broken transfer.
func (s *Store) Fetch(ctx context.Context, client *http.Client, url, digest string) (uint64, error) {
	for {
		_, err := s.lookup(digest)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		s.mu.Lock()
		f := s.flights[digest]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			s.flights[digest] = f
			s.mu.Unlock()
			return s.fetchFirst(ctx, client, url, digest, f)
		}
		s.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		// If the downloading caller was cancelled, this caller tries itself.
		if f.err != nil && !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return 0, f.err
		}
	}
}

func (s *Store) fetchFirst(ctx context.Context, client *http.Client, url, digest string, f *flight) (n uint64, err error) {
	defer func() {
		s.mu.Lock()
		delete(s.flights, digest)
		s.mu.Unlock()
		f.err = err
		close(f.done)
	}()
	// It may have arrived between the check and the flight.
	if _, err := s.lookup(digest); err == nil {
		return 0, nil
	}
	d, err := s.newDraft()
	if err != nil {
		return 0, err
	}
	defer d.discard()
	p := &pull{client: client, url: url, digest: digest, draft: d}
	if err := p.run(ctx); err != nil {
		return p.bytes, err
	}
	if got := d.digest(); got != digest {
		return p.bytes, &Mismatch{digest, got}
	}
	return p.bytes, s.commitDraft(d)
}

// A pull is the transfer of one blob, by one or more requests.
type pull struct {
	client      *http.Client
	url, digest string
	draft       *draft
	bytes       uint64 // of all requests together
}

// final wraps an error after which no request is tried again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func (p *pull) run(ctx context.Context) error {
	for failed := 0; ; {
		before := p.bytes
		err := p.fetchRest(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if f := (final{}); errors.As(err, &f) || errors.Is(err, ErrFull) {
			return err
		}
		if failed++; p.bytes > before {
			failed = 0
		}
		if failed >= tries {
			return fmt.Errorf("blob %s was not received: %w", p.digest, err)
		}
		select {
		case <-time.After(p.draft.store.pause << failed):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fetchRest requests the bytes that are missing.
func (p *pull) fetchRest(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := p.draft.store.stallAfter
	stall := time.AfterFunc(limit, func() { cancel(fmt.Errorf("no data came for %v", limit)) })
	defer stall.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return final{err}
	}
	if p.draft.n > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.draft.n))
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	if err := p.accept(resp); err != nil {
		return err
	}
	n, err := io.Copy(p.draft, &watched{resp.Body, stall, limit})
	p.bytes += uint64(n)
	return cause(ctx, err)
}

// accept decides by the response header at which offset the body belongs.
func (p *pull) accept(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return p.draft.restart() // the whole blob follows, whatever range was requested
	case code == http.StatusPartialContent &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", p.draft.n)):
		return nil
	case code == http.StatusRequestedRangeNotSatisfiable:
		if err := p.draft.restart(); err != nil {
			return err
		}
		return errors.New("the server has another length for it")
	case code == http.StatusNotFound || code == http.StatusGone:
		return final{fmt.Errorf("blob %s: the server does not have it: %w", p.digest, fs.ErrNotExist)}
	case code/100 == 4:
		return final{fmt.Errorf("blob %s: %s", p.digest, problemText(resp))}
	}
	return errors.New(problemText(resp))
}

// problemText returns the message of an error response.
func problemText(resp *http.Response) string {
	var problem struct{ Text string }
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
	if json.Unmarshal(b, &problem) == nil && problem.Text != "" {
		return problem.Text
	}
	return "the server answered " + resp.Status
}

func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watched is a reader that restarts the stall timer with every byte.
type watched struct {
	r     io.Reader
	stall *time.Timer
	limit time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 {
		w.stall.Reset(w.limit)
	}
	return n, err
}
