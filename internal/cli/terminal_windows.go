// SPDX-License-Identifier: MIT

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the number of columns of a console that supports escape sequences
// (Windows 10 and newer), else 0.
func terminalWidth(f *os.File) int {
	handle := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(handle, &mode) != nil {
		return 0
	}
	if windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) != nil {
		return 0
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(handle, &info) != nil {
		return 0
	}
	if info.Size.X < 20 {
		return 80
	}
	return int(info.Size.X)
}

// OpenTerminal returns an error: it is supported only on systems with pseudoterminals.
func OpenTerminal(*os.File) (ours, program *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}
