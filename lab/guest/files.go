// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// files are the two sides of a program's standard streams.
type files struct {
	in, out, err *os.File   // ours; with a terminal, in and out are its master
	theirs       []*os.File // 0, 1 and 2
	terminal     bool
}

func openFiles(r *wire.Request) (*files, error) {
	f := &files{}
	var err error
	if r.Terminal != nil {
		err = f.openTerminal(*r.Terminal)
	} else {
		err = f.openPipes(r)
	}
	if err == nil && r.Program.User {
		err = f.chownStreams()
	}
	if err != nil {
		f.close()
		f.closeTheirs()
		return nil, err
	}
	return f, nil
}

func (f *files) openPipes(r *wire.Request) error {
	var in, out, fail *os.File
	var err error
	if in, f.in, err = os.Pipe(); err != nil {
		return err
	}
	f.theirs = append(f.theirs, in)
	if r.Results {
		out, err = os.OpenFile(resultsPort, os.O_WRONLY|unix.O_NOCTTY, 0)
	} else {
		f.out, out, err = os.Pipe()
	}
	if err != nil {
		return err
	}
	f.theirs = append(f.theirs, out)
	if r.Console {
		fail, err = os.OpenFile("/dev/console", os.O_WRONLY|unix.O_NOCTTY, 0)
	} else {
		f.err, fail, err = os.Pipe()
	}
	if err != nil {
		return err
	}
	f.theirs = append(f.theirs, fail)
	return nil
}

// openTerminal makes a pair whose slave becomes the controlling terminal.
func (f *files) openTerminal(size wire.Size) error {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	f.in, f.out, f.terminal = master, master, true
	var number int
	err = withFd(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		var err error
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.resize(size); err != nil {
		return err
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	f.theirs = []*os.File{slave, slave, slave}
	return nil
}

// withFd leaves the file pollable, which Fd does not.
func withFd(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// chownStreams lets the ordinary user open its streams again through /dev/stdout.
func (f *files) chownStreams() error {
	for _, t := range f.theirs {
		if err := t.Chown(userID, userID); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) resize(s wire.Size) error {
	if !f.terminal {
		return fmt.Errorf("a terminal size for a program without a terminal")
	}
	return withFd(f.in, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
}

// endInput: a terminal knows the end of input only as a character.
func (f *files) endInput() {
	if f.terminal {
		f.in.Write([]byte{4})
		return
	}
	f.in.Close()
}

// wakeReaders has the readers of output look only at what is there.
func (f *files) wakeReaders() {
	for _, r := range []*os.File{f.out, f.err} {
		if r != nil {
			r.SetReadDeadline(time.Now())
		}
	}
}

func (f *files) close() {
	for _, r := range []*os.File{f.in, f.out, f.err} {
		if r != nil {
			r.Close()
		}
	}
}

func (f *files) closeTheirs() {
	for _, t := range f.theirs {
		t.Close()
	}
	f.theirs = nil
}

// resultsPort is the second serial line; this computer keeps what is written
// to it up to the last byte before a panic.
const resultsPort = "/dev/ttyS1"

// rawResults has the line change no byte.
func rawResults() error {
	return withResults(func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		setRaw(t)
		return unix.IoctlSetTermios(fd, unix.TCSETS, t)
	})
}

// setRaw is 8 bits at full speed, without a modem and without any change.
func setRaw(t *unix.Termios) {
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
}

// drainResults waits until the line has sent everything.
func drainResults() error {
	return withResults(func(fd int) error { return unix.IoctlSetInt(fd, unix.TCSBRK, 1) })
}

// retryInterrupted begins a call again that a signal ended, of a child or of the
// run-time: both come while the line still sends.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func withResults(do func(fd int) error) error {
	var fd int
	err := retryInterrupted(func() (err error) {
		fd, err = unix.Open(resultsPort, unix.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := retryInterrupted(func() error { return do(fd) }); err != nil {
		return fmt.Errorf("%s: %w", resultsPort, err)
	}
	return nil
}
