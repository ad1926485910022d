// SPDX-License-Identifier: MIT

package cli

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth is 0 where f is no console that understands escape sequences
// (Windows 10 and newer), else its columns.
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

// OpenTerminal is for systems that have pseudo-terminals.
func OpenTerminal(*os.File) (ours, program *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}
