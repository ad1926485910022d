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

// WindowSize returns the size of a console in characters, and zeros for another file.
func WindowSize(f *os.File) (columns, rows int) {
	var info windows.ConsoleScreenBufferInfo
	if columns = terminalWidth(f); columns == 0 || windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return columns, int(info.Window.Bottom-info.Window.Top) + 1
}

// OpenTerminal returns an error: it is supported only on systems with pseudoterminals.
func OpenTerminal(*os.File) (ours, program *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}
