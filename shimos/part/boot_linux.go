// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// A Boot is a Linux kernel for a partition.
type Boot struct {
	Image   []byte // that puts the kernel in its place
	Kernel  []byte // a bzImage
	Initrd  []byte // its initial file system, with GuestFiles
	Command string // words for it
	Files   string // folder to serve to it as its root; empty: none
	Link    *Link  // nil: it has no network
	Disk    string // file that is its disk; empty: it has none
	Up      func() // called when its console is there; may be nil
}

// A LinuxEnd says how a kernel on a partition ended.
type LinuxEnd string

// Ends of a kernel. Anything else is an error.
const (
	EndRestart  LinuxEnd = "it restarted"
	EndPowerOff LinuxEnd = "it powered off"
	EndHalt     LinuxEnd = "it halted"
	EndPanic    LinuxEnd = "it panicked"
	EndProgram  LinuxEnd = "its program ended"
)

// A ProgramError is the end of a kernel whose program failed.
type ProgramError struct{ Code int }

func (e *ProgramError) Error() string { return fmt.Sprintf("its program ended with code %d", e.Code) }

const (
	pageBytes = 4096
	waitMS    = 10 // between looks at the console, unless there is output
)

// A Lender is an open file of the module, which controls one partition. What it created
// ends with the file, also if the process is killed.
type Lender struct {
	file *os.File
	open uapi.ShimosOpen
	mail []byte
	pool []byte // nil unless the kernel has devices
}

// NewLender opens the module's device.
func NewLender() (*Lender, error) {
	f, err := openModule(uapi.ShimosDevice)
	if err != nil {
		return nil, err
	}
	return &Lender{file: f}, nil
}

func (l *Lender) call(number uintptr, arg unsafe.Pointer, why []byte) error {
	return explainError(ioctlFile(l.file, number, arg), why)
}

// Create makes a partition that is released when the Lender is closed.
func (l *Lender) Create(r Request) (uint32, error) {
	c, err := r.create()
	if err != nil {
		return 0, err
	}
	c.Flags |= uapi.ShimosFile
	err = l.call(uapi.ShimosIocCreate, unsafe.Pointer(&c), c.Why[:])
	return c.ID, err
}

// Close stops what runs. A partition that this Lender created is released before it
// returns.
func (l *Lender) Close() error {
	err := errors.Join(l.stop(), l.unmap())
	return errors.Join(err, l.file.Close())
}

func (l *Lender) stop() error {
	if l.open.Mail == 0 {
		return nil
	}
	return l.call(uapi.ShimosIocStop, nil, nil)
}

func (l *Lender) unmap() (err error) {
	for _, area := range []*[]byte{&l.mail, &l.pool} {
		if *area != nil {
			err = errors.Join(err, unix.Munmap(*area))
			*area = nil
		}
	}
	return err
}

// Run boots a kernel on partition id and serves its console until it ends, or ctx does.
func (l *Lender) Run(ctx context.Context, id uint32, b Boot, t Terminal) (LinuxEnd, error) {
	l.open.ID = id
	if err := l.call(uapi.ShimosIocOpen, unsafe.Pointer(&l.open), l.open.Why[:]); err != nil {
		return "", err
	}
	load := uapi.ShimosLoad{Address: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.Image)))), Length: uint64(len(b.Image))}
	if err := l.call(uapi.ShimosIocLoad, unsafe.Pointer(&load), load.Why[:]); err != nil {
		return "", err
	}
	if b.Link != nil {
		b.Command += " " + uapi.SkepLinuxAddressWord + b.Link.There.Addr().String()
	}
	c, err := l.prepare(b)
	if err != nil {
		return "", err
	}
	models, err := b.models()
	if err != nil {
		return "", errors.Join(err, closeModels(models))
	}
	end, err := l.start(ctx, c, models, newServed(t, b.Up))
	return end, errors.Join(err, closeModels(models))
}

// models lists the kernel's devices, in the order of its table. Also with an error there
// may be some, which are to be closed.
func (b *Boot) models() (list []model, err error) {
	if b.Files != "" {
		m, err := filesModel(b.Files)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	if b.Link != nil {
		list = append(list, netModel(b.Link))
	}
	if b.Disk != "" {
		m, err := diskModel(b.Disk)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	return list, nil
}

// start starts the cores and serves console and devices.
func (l *Lender) start(ctx context.Context, c *console, models []model, s *served) (LinuxEnd, error) {
	if len(models) > 0 {
		pool, err := unix.Mmap(int(l.file.Fd()), int64(uapi.ShimosMapPool), int(l.open.Pool), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return "", err
		}
		l.pool = pool
	}
	devices, err := plug(c.l, l.pool, models)
	if err != nil {
		return "", err
	}
	var start uapi.ShimosStart
	if err := l.call(uapi.ShimosIocStart, unsafe.Pointer(&start), start.Why[:]); err != nil {
		return "", err
	}
	return l.serveAll(ctx, c, devices, s)
}

// serveAll serves console and devices until one of them ends.
func (l *Lender) serveAll(ctx context.Context, c *console, devices []*device, s *served) (LinuxEnd, error) {
	both, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serveDevices(both, devices); err != nil {
			stop(err)
		}
	}()
	end, err := l.serve(both, c, s)
	stop(nil)
	<-done // they use the pool
	if cause := context.Cause(both); ctx.Err() == nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return end, err
}

// prepare puts the files at the pool's end, and says in the mailbox where they are.
func (l *Lender) prepare(b Boot) (*console, error) {
	initrd, kernel := roundUp(len(b.Initrd)), roundUp(len(b.Kernel))
	if uint64(initrd+kernel) > l.open.Pool {
		return nil, &RefusedError{fmt.Sprintf("the kernel and its initial file system are %d MiB, and the partition has %d: create one with more memory",
			(initrd+kernel)>>20, l.open.Pool>>20)}
	}
	if len(b.Command) >= uapi.SkepLinuxCommand {
		return nil, &RefusedError{fmt.Sprintf("the words for the kernel are %d bytes, and it takes less than %d", len(b.Command), uapi.SkepLinuxCommand)}
	}
	at := l.open.Pool - uint64(initrd+kernel)
	if err := l.write(at, b.Kernel); err != nil {
		return nil, err
	}
	if err := l.write(at+uint64(kernel), b.Initrd); err != nil {
		return nil, err
	}
	mail, err := unix.Mmap(int(l.file.Fd()), uapi.ShimosMapMail, int(l.open.Mail), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	l.mail = mail
	v := (*uapi.SkepLinux)(unsafe.Pointer(&mail[uapi.SkepLinuxMail]))
	v.Kernel, v.KernelLength = at, uint64(len(b.Kernel))
	v.Initrd, v.InitrdLength = at+uint64(kernel), uint64(len(b.Initrd))
	copy(v.Command[:], b.Command)
	v.Magic, v.Revision = uapi.SkepLinuxMagic, uapi.SkepLinuxRevision
	return &console{l: v}, nil
}

func roundUp(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }

// write copies data to an offset in the pool, which is a multiple of the page size.
func (l *Lender) write(offset uint64, data []byte) error {
	if len(data) == 0 {
		return &RefusedError{"the kernel or its initial file system is empty"}
	}
	at, err := unix.Mmap(int(l.file.Fd()), int64(uapi.ShimosMapPool+offset), roundUp(len(data)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(at, data)
	return unix.Munmap(at)
}

// serve moves the console's bytes until the kernel ends.
func (l *Lender) serve(ctx context.Context, c *console, s *served) (LinuxEnd, error) {
	wait := uapi.ShimosWait{MS: waitMS, Core: uapi.ShimosWaitAny}
	for ctx.Err() == nil {
		state := c.state()
		n, err := s.step(c, state)
		if err != nil {
			return "", err
		}
		if n > 0 {
			continue
		}
		if state >= uapi.LinuxRefused {
			return endOf(state, c.code(), c.why())
		}
		if err := l.call(uapi.ShimosIocWait, unsafe.Pointer(&wait), nil); errors.Is(err, unix.EPIPE) {
			return "", errors.New("its cores were stopped: 'skep part list' says by what")
		}
	}
	return "", ctx.Err()
}

func endOf(state uapi.SkepLinuxState, code uint32, why string) (LinuxEnd, error) {
	switch state {
	case uapi.LinuxRefused:
		return "", &RefusedError{why}
	case uapi.LinuxRestart:
		return EndRestart, nil
	case uapi.LinuxPowerOff:
		return EndPowerOff, nil
	case uapi.LinuxHalt:
		return EndHalt, nil
	case uapi.LinuxPanic:
		return EndPanic, nil
	case uapi.LinuxExit:
		switch {
		case code > 255:
			return "", errSpoiled
		case code > 0:
			return "", &ProgramError{int(code)}
		}
		return EndProgram, nil
	}
	return "", errSpoiled
}
