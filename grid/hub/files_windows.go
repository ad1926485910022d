// SPDX-License-Identifier: MIT

package hub

import "golang.org/x/sys/windows"

// openFiles: handles are not the limit there.
func openFiles() int64 { return 1 << 16 }

// freeBytes is what this user may still write to the disk of dir.
func freeBytes(dir string) (free uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	return free, windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
}
