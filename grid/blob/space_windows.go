// SPDX-License-Identifier: MIT

package blob

import (
	"errors"

	"golang.org/x/sys/windows"
)

func noSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
