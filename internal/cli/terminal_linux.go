// SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalWidth is 0 where f is no terminal, else its columns.
func terminalWidth(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(),
		syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 || os.Getenv("TERM") == "dumb" {
		return 0
	}
	if size.columns < 20 {
		return 80
	}
	return int(size.columns)
}
