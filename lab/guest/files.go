// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// files are both ends of a program's standard streams.
type files struct {
	in, out, err *os.File   // our ends; for a terminal, in and out are its master
	theirs       []*os.File // the program's descriptors 0, 1 and 2
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

// openTerminal opens a pseudoterminal. Its slave becomes the controlling terminal.
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

// withFd calls do with the descriptor. Unlike Fd, it leaves the file in non-blocking mode.
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

// chownStreams makes the ordinary user the owner of its streams, so that it can reopen
// them through /dev/stdout.
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

// endInput ends the program's input. On a terminal the end of input is a character.
func (f *files) endInput() {
	if f.terminal {
		f.in.Write([]byte{4})
		return
	}
	f.in.Close()
}

// wakeReaders makes the readers of output stop waiting for more.
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

// resultsPort is the second serial port. The host keeps every byte written to it, up to
// the last one before a panic.
const resultsPort = "/dev/ttyS1"

// rawResults sets the port to raw mode, so that no byte is changed.
func rawResults() error { return withResults(setRawMode) }

func setRawMode(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	setRaw(t)
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// setRaw sets 8 bits, full speed, no modem control and no input or output processing.
func setRaw(t *unix.Termios) {
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
}

// drainResults waits until the port has sent everything.
func drainResults() error {
	return withResults(func(fd int) error { return unix.IoctlSetInt(fd, unix.TCSBRK, 1) })
}

// retryInterrupted repeats a call that a signal interrupted: SIGCHLD or one of the Go
// runtime. Both occur while the port still sends.
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
