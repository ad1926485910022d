// SPDX-License-Identifier: MIT

package agent

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An outlet passes on what a program writes to a pipe. mu is held from when bytes leave the
// pipe until they are passed on.
type outlet struct {
	mu   sync.Mutex
	r    *os.File
	over chan struct{}
}

// open returns the end for the program.
func (o *outlet) open() (*os.File, error) {
	r, w, err := os.Pipe()
	o.r, o.over = r, make(chan struct{})
	return w, err
}

// run copies until all writers have closed the pipe.
func (o *outlet) run(to io.Writer) {
	defer close(o.over)
	defer o.r.Close()
	raw, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for open := true; open && err == nil; {
		err = raw.Read(func(fd uintptr) bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			n, err := unix.Read(int(fd), buf)
			switch {
			case err == unix.EAGAIN:
				return false
			case err == unix.EINTR:
			case n <= 0:
				open = false
			default:
				if _, err := to.Write(buf[:n]); err != nil {
					open = false
				}
			}
			return true
		})
	}
}

// wait returns when all output was passed on, or was not within a time.
func (o *outlet) wait() {
	select {
	case <-o.over:
	case <-time.After(drainLimit):
	}
}

// drain returns when what the program has written was passed on; it writes no more.
func (o *outlet) drain() {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-o.over:
			return
		case <-t.C:
		}
		o.mu.Lock()
		n := pipeBytes(o.r)
		o.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

// pipeBytes is how many bytes are in a pipe.
func pipeBytes(f *os.File) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// An inlet is the input of a program. It keeps the end that the program reads, to count what
// is in the pipe. mu guards what follows it.
type inlet struct {
	r, w *os.File

	mu    sync.Mutex
	more  *sync.Cond
	buf   []byte // that the pipe has not taken
	eof   bool
	over  bool
	taken uint64
}

// inletMax bounds what an inlet buffers: a hub sends no more.
const inletMax = 2 << 20

func newInlet() (*inlet, error) {
	r, w, err := os.Pipe()
	i := &inlet{r: r, w: w}
	i.more = sync.NewCond(&i.mu)
	return i, err
}

// put adds input; none is its end. False: it is more than was asked for.
func (i *inlet) put(p []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.buf)+len(p) > inletMax {
		return false
	}
	i.buf = append(i.buf, p...)
	i.eof = i.eof || len(p) == 0
	i.more.Signal()
	return true
}

// feed writes to the pipe until the input ends, and says how much it has written.
func (i *inlet) feed(say func(uint64)) {
	raw, err := i.w.SyscallConn()
	for err == nil && i.await() {
		err = raw.Write(func(fd uintptr) bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			n, err := unix.Write(int(fd), i.buf)
			if n > 0 {
				i.taken += uint64(n)
				i.buf = i.buf[n:]
			}
			return err != unix.EAGAIN || i.over
		})
		i.mu.Lock()
		n := i.taken
		i.mu.Unlock()
		say(n)
	}
	i.w.Close()
}

// await waits for input; false: there will be none.
func (i *inlet) await() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.buf) == 0 && !i.eof && !i.over {
		i.more.Wait()
	}
	return len(i.buf) > 0 && !i.over
}

// consumed is how much the program has read, which reads no more.
func (i *inlet) consumed() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.taken - uint64(pipeBytes(i.r))
}

func (i *inlet) close() {
	i.mu.Lock()
	i.over = true
	i.more.Signal()
	i.mu.Unlock()
	i.w.Close()
	i.r.Close()
}
