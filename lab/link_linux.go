// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A Pair is two guests on one wire, with the addresses 10.78.0.1 and 10.78.0.2. Each has
// both names in its /etc/hosts.
type Pair [2]*Guest

// Join puts two machines on one wire and gives each the other's name. The caller closes
// both ends when both machines have started, because a guest has its own copy.
func Join(a, b *Machine) (err error) {
	setDefault(&a.Name, "vm1")
	setDefault(&b.Name, "vm2")
	if a.Name == b.Name {
		return fmt.Errorf("both machines of a pair are called %q", a.Name)
	}
	if a.Wire, b.Wire, err = NewWire(); err != nil {
		return err
	}
	a.Wire.peer, b.Wire.peer = b.Name, a.Name
	return nil
}

// NewPair starts a, then b: two kernels that boot at the same time delay each other's
// timer ticks. If b does not come up, a is ended too.
func NewPair(ctx context.Context, a, b Machine) (*Pair, error) {
	if err := Join(&a, &b); err != nil {
		return nil, err
	}
	defer a.Wire.Close()
	defer b.Wire.Close()
	first, err := Start(ctx, a)
	if err != nil {
		return nil, err
	}
	second, err := Start(ctx, b)
	if err != nil {
		first.Kill()
		return nil, fmt.Errorf("%w; the other's console is %s", err, filepath.Join(first.Dir(), consoleFile))
	}
	return &Pair{first, second}, nil
}

// PowerOff ends both guests.
func (p *Pair) PowerOff(ctx context.Context) error {
	return errors.Join(p[0].PowerOff(ctx), p[1].PowerOff(ctx))
}

// Kill ends both guests at once.
func (p *Pair) Kill() {
	p[0].Kill()
	p[1].Kill()
}

// NewWire creates the two ends of a link.
func NewWire() (*Wire, *Wire, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("a wire: %w", err)
	}
	return &Wire{end: 1, file: os.NewFile(uintptr(fds[0]), "wire")}, &Wire{end: 2, file: os.NewFile(uintptr(fds[1]), "wire")}, nil
}

// Close closes the end. The link ends when the guests on it have ended too.
func (w *Wire) Close() error { return w.file.Close() }

// copy returns a copy of the end for a guest.
func (w *Wire) copy() (*Wire, error) {
	fd, err := syscall.Dup(int(w.file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("a wire: %w", err)
	}
	syscall.CloseOnExec(fd)
	c := *w
	c.file = os.NewFile(uintptr(fd), "wire")
	return &c, nil
}
