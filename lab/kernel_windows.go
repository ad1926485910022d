// SPDX-License-Identifier: MIT

package lab

import (
	"errors"
	"os"
)

// The lab runs on Linux; this keeps skep.exe building.
var errLocked = errors.New("locked")

func tryLock(*os.File) error { return errors.ErrUnsupported }
