// SPDX-License-Identifier: MIT

package hub

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockState does not wait: two hubs on one directory are a mistake.
func lockState(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var o windows.Overlapped
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	if err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &o); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
