// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// terminalWidth returns the number of columns of a terminal, or 0 if f is none.
func terminalWidth(f *os.File) int {
	columns, _ := WindowSize(f)
	return columns
}

// WindowSize returns the size of a terminal in characters, and zeros for another file
// or a terminal that draws nothing.
func WindowSize(f *os.File) (columns, rows int) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(),
		syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 || os.Getenv("TERM") == "dumb" {
		return 0, 0
	}
	columns, rows = int(size.columns), int(size.rows)
	if columns < 20 {
		columns = 80
	}
	if rows < 3 {
		rows = 24
	}
	return columns, rows
}

// OpenTerminal opens a pseudoterminal for a program whose output is shown on the terminal
// like. What the program writes to program is read unchanged from ours. It does not become
// a controlling terminal.
func OpenTerminal(like *os.File) (ours, program *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = copyModes(program, like)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true) // Fd made it blocking, so deadlines would have no effect
	}
	if err != nil {
		ours.Close()
		if program != nil {
			program.Close()
		}
		return nil, nil, err
	}
	return ours, program, nil
}

// copyModes copies the size and modes of from but turns output processing off, because the terminal
// that finally shows the text converts \n to \r\n.
func copyModes(to, from *os.File) error {
	modes, err := unix.IoctlGetTermios(int(from.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	modes.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(to.Fd()), unix.TCSETS, modes); err != nil {
		return err
	}
	size, err := unix.IoctlGetWinsize(int(from.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return err
	}
	return unix.IoctlSetWinsize(int(to.Fd()), unix.TIOCSWINSZ, size)
}
