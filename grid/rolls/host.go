// SPDX-License-Identifier: MIT

package rolls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A Host carries out rolls as root, for an agent that is not root's.
type Host struct {
	node *Node
	dir  string // of packages that were fetched
	log  func(format string, args ...any)

	mu    sync.Mutex
	agent *wire // nil: none is connected
	waits map[string]chan packageFile
}

type packageFile struct {
	path string
	err  error
}

// NewHost returns a host that remembers rolls in dir, and creates dir if it is missing.
func NewHost(dir string, k Kernel, log func(string, ...any)) (*Host, error) {
	h := &Host{dir: filepath.Join(dir, "packages"), log: log, waits: map[string]chan packageFile{}}
	if err := os.RemoveAll(h.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	h.node, err = NewNode(dir, k, h.send, h.fetch, log)
	return h, err
}

func (h *Host) connected() *wire {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agent
}

func (h *Host) send(r Report) {
	if w := h.connected(); w != nil {
		if err := w.write(message{Report: &r}, nil); err != nil {
			w.conn.Close()
		}
	}
}

// fetch asks the agent for a package. Whether it is the right one is found out later.
func (h *Host) fetch(ctx context.Context, digest string) (string, error) {
	got := make(chan packageFile, 1)
	h.mu.Lock()
	w := h.agent
	h.waits[digest] = got
	h.mu.Unlock()
	if w == nil {
		return "", errors.New("no agent is connected")
	}
	if err := w.write(message{Fetch: digest}, nil); err != nil {
		return "", err
	}
	select {
	case f := <-got:
		return f.path, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

const acceptRetry = time.Second

// Serve carries out rolls until ctx ends. It serves one agent at a time, the last that
// connected. permits decides who may connect.
func (h *Host) Serve(ctx context.Context, l net.Listener, permits func(net.Conn) error) error {
	var ends sync.WaitGroup
	defer ends.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	ends.Go(func() { h.node.Run(ctx) })
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // out of descriptors, for example
			h.log("no connection was accepted: %v", err)
			select {
			case <-ctx.Done():
			case <-time.After(acceptRetry):
			}
			continue
		}
		if err := permits(c); err != nil {
			h.log("a connection was refused: %v", err)
			c.Close()
			continue
		}
		w := h.replace(newWire(c))
		ends.Go(func() {
			defer context.AfterFunc(ctx, func() { c.Close() })()
			err := h.serve(ctx, w)
			if ctx.Err() == nil {
				h.log("the agent is not connected any more: %v", err)
			}
		})
	}
}

// tellApplied tells an agent which updates are applied, until it is not connected any more.
func (h *Host) tellApplied(ctx context.Context, w *wire) {
	tick := time.NewTicker(appliedEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		list := h.node.Applied()
		if err := w.write(message{Applied: &list}, nil); err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// replace makes w the agent, and disconnects the one before.
func (h *Host) replace(w *wire) *wire {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.agent != nil {
		h.agent.conn.Close()
	}
	h.agent = w
	return w
}

func (h *Host) serve(ctx context.Context, w *wire) error {
	var told sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		w.conn.Close()
		cancel()
		told.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.agent != w {
			return
		}
		h.agent = nil
		for digest := range h.waits {
			h.answer(digest, packageFile{err: errors.New("the agent is not connected any more")})
		}
	}()
	if err := w.write(message{}, nil); err != nil { // it is permitted
		return err
	}
	told.Go(func() { h.tellApplied(ctx, w) })
	for {
		m, err := w.read()
		switch {
		case err != nil:
			return err
		case m.Order != nil:
			h.node.Take(*m.Order)
		case m.Package != "":
			if err := h.takePackage(w, m); err != nil {
				return err
			}
		}
	}
}

// answer ends a wait. It is called with the lock held.
func (h *Host) answer(digest string, f packageFile) {
	if got := h.waits[digest]; got != nil {
		got <- f
		delete(h.waits, digest)
	}
}

// takePackage stores a package that was asked for.
func (h *Host) takePackage(w *wire, m message) error {
	h.mu.Lock()
	wanted := h.waits[m.Package] != nil
	h.mu.Unlock()
	if !wanted || !isDigest(m.Package) {
		return fmt.Errorf("the agent sent a package that nobody asked for")
	}
	f := packageFile{path: filepath.Join(h.dir, m.Package)}
	if m.Error != "" {
		f.err = errors.New(m.Error[:min(len(m.Error), textMax)])
	} else if err := h.store(w, f.path, m.Size, &f); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer(m.Package, f)
	return nil
}

// store reads a package's bytes, also if the disk is full: the next message follows. An
// error ends the connection; that of the disk is in f.
func (h *Host) store(w *wire, path string, size int64, f *packageFile) error {
	body := &io.LimitedReader{R: w.in, N: size} // counts what is read, also if it cannot be written
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = io.Copy(file, body)
		err = errors.Join(err, file.Close())
	}
	f.err = err
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if body.N > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}
