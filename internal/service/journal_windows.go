// SPDX-License-Identifier: MIT

package service

import (
	"os"
	"sync/atomic"
)

// events is the stream whose lines become events, if this process is a service.
var events atomic.Pointer[os.File]

// IsJournal reports whether the lines of a stream become events of Windows, which
// have a priority.
func IsJournal(f *os.File) bool { return f != nil && f == events.Load() }
