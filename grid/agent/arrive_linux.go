// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
)

// A gate passes a snapshot on to bee, but not its end, without which bee starts nothing.
type gate struct {
	w    io.Writer
	held []byte
}

// gateHeld is how many bytes a gate keeps: a snapshot ends with its digest.
const gateHeld = sha256.Size

func (g *gate) Write(p []byte) (int, error) {
	g.held = append(g.held, p...)
	if n := len(g.held) - gateHeld; n > 0 {
		if _, err := g.w.Write(g.held[:n]); err != nil {
			return 0, err
		}
		g.held = g.held[:copy(g.held, g.held[n:])]
	}
	return len(p), nil
}

// open lets the program start.
func (g *gate) open() error {
	_, err := g.w.Write(g.held)
	return err
}

// openFifo makes a pipe with a name, from which bee reads a snapshot. It has both ends, so that
// nobody waits for the other one to be opened.
func openFifo(dir string, own int) (*os.File, error) {
	name := filepath.Join(dir, fmt.Sprintf("s%016x", newNonce()))
	if err := unix.Mkfifo(name, 0o600); err != nil {
		return nil, fmt.Errorf("a pipe for the program's snapshot cannot be made: %w", err)
	}
	if own != 0 {
		if err := os.Chown(name, own, own); err != nil {
			return nil, errors.Join(err, os.Remove(name))
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, 1<<20) // it works with less, too
	return f, unix.SetNonblock(int(f.Fd()), true)
}

// An arrival is an image that comes while its program still runs elsewhere. Its process takes
// the memory from it at once, and starts only if this image is the one that counts.
type arrival struct {
	w      *io.PipeWriter
	done   chan struct{} // closed when all of it was taken; then come:
	digest string
	err    error
}

// takeImage takes a part of an image. It waits while bee is slower than the way.
func (m *movable) takeImage(p []byte) {
	m.mu.Lock()
	if m.arrival == nil && !m.sealed {
		r, w := io.Pipe()
		m.arrival = &arrival{w: w, done: make(chan struct{})}
		go m.receive(m.arrival, r)
	}
	a := m.arrival
	m.mu.Unlock()
	if a != nil {
		a.w.Write(p) // its error comes at the end
	}
}

// seal returns what arrives. Nothing else does from now on.
func (m *movable) seal() *arrival {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sealed = true
	return m.arrival
}

func (m *movable) receive(a *arrival, r *io.PipeReader) {
	defer close(a.done)
	sum := sha256.New()
	all := io.TeeReader(bufio.NewReaderSize(r, proto.ExecFrameMax), sum)
	if a.err = m.launch(true); a.err == nil {
		go m.watchArrival(m.process, m.errs, m.note)
		a.err = m.fill(all)
	}
	if a.err == nil {
		_, a.err = io.Copy(io.Discard, all) // what a tar file may have after its end
	}
	a.digest = hex.EncodeToString(sum.Sum(nil))
	r.CloseWithError(errors.New("it is not needed"))
}

// watchArrival ends the leg if what arrives cannot be restored here. Then the program has not stopped yet.
func (m *movable) watchArrival(p *process, errs *outlet, note *lines) {
	err := startError(p, errs, note)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.sealed {
		m.failed <- err
	}
}

// has reports whether a process waits for the end of this image.
func (m *movable) has(image string) bool {
	a := m.seal()
	if a == nil {
		return false
	}
	a.w.Close()
	<-a.done
	return a.err == nil && a.digest == image
}

// bring starts the process: from the program's beginning if image is empty.
func (m *movable) bring(image string) error {
	if m.has(image) {
		return nil
	}
	m.clear()
	if image == "" {
		return m.launch(false)
	}
	a := m.agent
	own := a.ownArea()
	owner := "image of exec " + m.exec.ID
	own.store.Pin(image, owner) // the hub keeps it until the program runs again
	defer own.store.Discard(owner)
	if _, err := a.fetchInto(m.ctx, own, image); err != nil {
		return fmt.Errorf("the program's image was not received: %w", err)
	}
	path, err := own.store.Path(image)
	if err != nil {
		return err
	}
	from, err := openCached(path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := m.launch(true); err != nil {
		return err
	}
	return m.fill(from)
}

// launch makes the folders and starts the process. If it is to restore the program, it waits for fill.
func (m *movable) launch(restore bool) error {
	a := m.agent
	dir, err := a.makeOwn(a.ownArea(), "x")
	if err != nil {
		return err
	}
	m.dir, m.report, m.nonce, m.note = dir, a.reportFile(dir), newNonce(), newLines(func(string) {})
	m.out, m.errs = new(outlet), new(outlet)
	if restore {
		if m.fifo, err = openFifo(a.ownArea().tmp, a.confined.RunAs); err != nil {
			return err
		}
		m.gate = &gate{w: m.fifo}
	}
	c, err := m.command()
	if err != nil {
		return err
	}
	if err := m.start(c); err != nil {
		return err
	}
	if restore {
		go closeUnread(m.ctx, m.process, m.fifo)
	}
	return nil
}

// closeUnread closes a pipe that nobody reads any more, so that nobody waits for room in it.
func closeUnread(ctx context.Context, p *process, fifo *os.File) {
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	fifo.Close()
}

// fill unpacks an image: all but the end of the snapshot.
func (m *movable) fill(from io.Reader) error {
	a := m.agent
	total, _ := memoryInfo()
	most := min(m.imageMost(), 3*total) // bee has it in memory
	err := unpackImage(from, m.gate, m.awaitTaken, m.dir, a.confined.RunAs, a.limitsFor(m.exec.Limits).Disk, most)
	if errors.Is(err, os.ErrClosed) {
		return nil // it has ended, and says why
	}
	return err
}

// awaitTaken waits until bee has read what is in its pipe. Then the process has its root, whose
// places may lie in the program's folders, and files can be made there.
func (m *movable) awaitTaken() error {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for pipeBytes(m.fifo) > 0 {
		select {
		case <-t.C:
		case <-m.process.done:
			return nil // it says why
		case <-m.ctx.Done():
			return errStopped
		}
	}
	return nil
}

// clear ends the process, if there is one, and removes what it had.
func (m *movable) clear() {
	if m.process != nil {
		m.process.kill()
		<-m.process.done
	}
	if m.fifo != nil {
		m.fifo.Close()
		os.Remove(m.fifo.Name())
	}
	if m.dir != "" {
		RemoveAll(m.dir)
		os.Remove(m.report)
	}
	m.process, m.fifo, m.gate, m.dir, m.report = nil, nil, nil, "", ""
}

// close ends what has been begun for the leg.
func (m *movable) close() {
	m.stop()
	if a := m.seal(); a != nil {
		a.w.CloseWithError(errStopped)
		<-a.done
	}
	m.clear()
}
