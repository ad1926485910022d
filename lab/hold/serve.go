// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skep/lab"
	"skep/lab/wire"
)

// Time limits for the end of a guest and for its streams.
const (
	offPatient     = 20 * time.Second
	requestTimeout = 10 * time.Second
	flushTime      = 5 * time.Second
)

// A Guest is the part of lab.Guest that a holder uses.
type Guest interface {
	Stream(context.Context) (net.Conn, error) // a stream for one request
	PowerOff(context.Context) error
	Kill()
	Done() <-chan struct{}
	Err() error // after Done: why it ended; nil if the end was requested
	Dir() string
	Hello() wire.Hello
}

// A Boot starts a machine. It stops early when the context ends.
type Boot func(ctx context.Context, build string, m lab.Machine) (Guest, error)

// A holder owns one machine. The mutex guards info.
type holder struct {
	order    order
	dir      string // its folder below .hold
	lock     *os.File
	listener *net.UnixListener
	answers  io.Writer // to the client that ordered the machine
	end      context.CancelFunc
	guest    Guest // set before booted is closed
	booted   chan struct{}
	gone     chan struct{} // closed when info says how the guest ended
	clients  atomic.Int32  // number of clients being served

	sync.Mutex
	info Info
}

// ErrNoOrder is returned by Serve if it gets no order.
var ErrNoOrder = errors.New("standard input holds no order for a machine")

// Serve reads an order from in, boots the machine and keeps it until it ends: by itself, by
// request, with ctx, or when in ends without the byte that lets the machine stay. Errors
// before the machine is up are written to out.
func Serve(ctx context.Context, in io.Reader, out io.Writer, boot Boot) error {
	h := &holder{answers: out, booted: make(chan struct{}), gone: make(chan struct{})}
	if err := wire.Read(in, &h.order); err != nil {
		return fmt.Errorf("%w: %w", ErrNoOrder, err)
	}
	ctx, h.end = context.WithCancel(ctx)
	defer h.end()
	err := h.open()
	if err != nil {
		wire.Write(out, answer{Error: err.Error()})
		return err
	}
	defer h.lock.Close()
	go h.watchTie(in)
	go h.accept()
	if err := h.bootMachine(ctx, boot); err != nil {
		h.listener.Close()
		h.removeDir()
		if ctx.Err() != nil || size(h.info.Console()) == 0 {
			removeRecords(h.info.Dir) // the boot was stopped, or the console is empty
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("the machine %s was ended before it was up", h.info.Name)
		}
		wire.Write(out, answer{Error: err.Error()})
		return err
	}
	return h.waitEnd(ctx)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (h *holder) open() error {
	m := &h.order.Machine
	if m.Name == "" || filepath.Base(m.Name) != m.Name || m.Name[0] == '.' {
		return fmt.Errorf("%q can't be the name of a machine", m.Name)
	}
	lock, err := claimDir(h.order.Build, m.Name)
	if err != nil {
		return err
	}
	h.lock, h.dir = lock, machineDir(h.order.Build, m.Name)
	h.info = Info{Name: m.Name, Kernel: m.Kernel, CPUs: m.CPUs, Memory: m.Memory, Nodes: m.Nodes,
		Since: time.Now().Round(time.Second), State: Booting, Dir: filepath.Join(h.order.Build, "lab", m.Name)}
	err = errors.Join(writeInfo(h.dir, h.info), logTo(filepath.Join(h.dir, logName)))
	if left := h.info.Out(); !Empty(left) {
		err = fmt.Errorf("%s holds files of an earlier machine of that name: move them away, or give another --name", left)
	}
	if err == nil {
		h.listener, err = listen(h.dir)
	}
	if err != nil {
		h.removeDir()
		lock.Close()
	}
	return err
}

// watchTie ends the machine when the client that ordered it ends, unless the client has
// sent the byte that lets it stay.
func (h *holder) watchTie(in io.Reader) {
	var b [1]byte
	if n, _ := in.Read(b[:]); n == 1 && b[0] == keep {
		return
	}
	h.end()
}

// bootMachine boots the machine. Only one machine boots at a time, because two boots in
// parallel take more than twice as long.
func (h *holder) bootMachine(ctx context.Context, boot Boot) error {
	lock, err := wait(ctx, filepath.Join(rootDir(h.order.Build), bootLock), func() { h.setState(Waiting) })
	if err != nil {
		return err
	}
	defer lock.Close()
	h.setState(Booting)
	free, err := FreeMemory()
	if err != nil {
		return err
	}
	if m := h.order.Machine.Memory; m > free {
		return fmt.Errorf("the machine needs %d MiB of memory, and only %d MiB are free here: give --memory %dM, or end a machine", m, free, free*3/4)
	}
	modules, err := modprobeConfig(h.order.Build, h.order.Machine.Kernel)
	if err != nil {
		return err
	}
	begin := time.Now()
	guest, err := boot(ctx, h.order.Build, h.order.Machine)
	if err != nil {
		return err
	}
	h.guest = guest
	h.changeInfo(func(i *Info) { // it is up when it is prepared
		i.Boot, i.Dir = time.Since(begin).Seconds(), guest.Dir()
		hello := guest.Hello()
		i.Release, i.CPUs = hello.Release, hello.CPUs
	})
	if err := installModules(ctx, guest, modules); err != nil {
		guest.Kill()
		<-guest.Done()
		return err
	}
	h.changeInfo(func(i *Info) { i.State = Up })
	close(h.booted)
	info := h.snapshot()
	err = wire.Write(h.answers, answer{Info: &info})
	if err != nil { // the client has ended
		h.end()
		guest.Kill()
		<-guest.Done()
	}
	return err
}

func (h *holder) setState(s State) {
	h.changeInfo(func(i *Info) { i.State = s })
	wire.Write(h.answers, answer{Progress: s}) // fails if the client is gone
}

// changeInfo changes h.info and writes it to the file beside the socket.
func (h *holder) changeInfo(f func(*Info)) {
	h.Lock()
	defer h.Unlock()
	f(&h.info)
	if err := writeInfo(h.dir, h.info); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (h *holder) snapshot() Info {
	h.Lock()
	defer h.Unlock()
	return h.info
}

// waitEnd waits for the machine's end. The folder of a machine that died stays for later
// clients, unless the client that ordered the machine is told now.
func (h *holder) waitEnd(ctx context.Context) error {
	asked := false
	select {
	case <-h.guest.Done():
	case <-ctx.Done():
		asked = true
		h.changeInfo(func(i *Info) { i.State = Ending })
		powerOff(h.guest, offPatient)
	}
	err := h.guest.Err()
	if asked {
		err = nil
	}
	h.changeInfo(func(i *Info) {
		i.State, i.Cause = Dead, "it was turned off"
		if err != nil {
			i.Cause = err.Error()
		}
	})
	close(h.gone)
	h.flush()
	h.listener.Close()
	if err == nil {
		removeRecords(h.snapshot().Dir)
		return h.removeDir()
	}
	return nil
}

// removeDir removes the folder under the lock, so that List never sees a part of it.
func (h *holder) removeDir() error {
	return withLock(h.order.Build, func() error { return os.RemoveAll(h.dir) })
}

// powerOff turns the guest off, and kills it after a time limit.
func powerOff(g Guest, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	go g.PowerOff(ctx)
	select {
	case <-g.Done():
	case <-ctx.Done():
		g.Kill()
	}
}

// flush waits until every client has received how the machine ended. It uses a counter and
// not a WaitGroup, because new clients can connect while it waits, and a WaitGroup panics
// if Add follows Wait at zero.
func (h *holder) flush() {
	for end := time.Now().Add(flushTime); h.clients.Load() > 0 && time.Now().Before(end); {
		time.Sleep(tick)
	}
}

// removeRecords removes the records of a machine that ended in order, except files in its
// /out.
func removeRecords(dir string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if e.Name() != "out" {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	if out := filepath.Join(dir, "out"); Empty(out) {
		os.RemoveAll(out)
	}
	os.Remove(dir) // succeeds only if it is empty
}

// Empty reports whether a folder is missing or holds no file of the user's. It ignores the
// files in which QEMU stores owners and modes.
func Empty(dir string) bool {
	list, _ := os.ReadDir(dir)
	return !slices.ContainsFunc(list, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".virtfs_metadata") })
}

func (h *holder) accept() {
	for {
		c, err := h.listener.AcceptUnix()
		if err != nil {
			return
		}
		h.clients.Add(1)
		go func() {
			defer h.clients.Add(-1)
			defer c.Close()
			if err := h.serve(c); err != nil {
				wire.Write(c, answer{Error: err.Error()})
			}
		}()
	}
}

// serve answers one request. It returns an error only before it has answered.
func (h *holder) serve(c *net.UnixConn) error {
	var a ask
	c.SetReadDeadline(time.Now().Add(requestTimeout))
	if err := wire.Read(c, &a); err != nil {
		return err
	}
	c.SetReadDeadline(time.Time{})
	switch a.Op {
	case opInfo:
		info := h.snapshot()
		wire.Write(c, answer{Info: &info})
		return nil
	case opDown:
		h.end()
		<-h.gone
		wire.Write(c, answer{})
		return nil
	case opStream:
		return h.joinStream(c)
	}
	return fmt.Errorf("the holder of this machine does not know %q: it is of another version of skep; end it with skep lab down", a.Op)
}

// joinStream joins a client's connection and a stream of the guest. If either ends, it
// closes the other; then the guest ends the program, or the client looks for the cause.
func (h *holder) joinStream(c *net.UnixConn) error {
	select {
	case <-h.booted:
	default:
		return fmt.Errorf("the machine %s is still booting", h.order.Machine.Name)
	}
	g, err := h.guest.Stream(context.Background())
	if err != nil {
		return fmt.Errorf("no way to the guest: %w", err)
	}
	defer g.Close()
	if err := wire.Write(c, answer{}); err != nil {
		return nil
	}
	go func() {
		io.Copy(g, c)
		g.Close()
	}()
	io.Copy(c, g)
	return nil
}
