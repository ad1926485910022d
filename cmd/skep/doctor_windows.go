// SPDX-License-Identifier: MIT

package main

import (
	"golang.org/x/sys/windows"
)

// checkSystem shows the version and does not check it, because Wine reports an older
// Windows.
func checkSystem() []check {
	v := windows.RtlGetVersion()
	return []check{passed("system", "Windows %d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)}
}

func freeSpace(dir string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err
}
