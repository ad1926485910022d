// SPDX-License-Identifier: MIT

package proctree

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Times are those of GetProcessTimes, in seconds, and Started in units of 100 ns.
type Times struct {
	Started int64
	Used    float64
}

// TimesOf reads the times of a process.
func TimesOf(pid int) (t Times, err error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return t, err
	}
	defer windows.CloseHandle(h)
	var started, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &started, &ended, &kernel, &user); err != nil {
		return t, err
	}
	return Times{units(started), Seconds(kernel) + Seconds(user)}, nil
}

// Seconds is a duration in seconds.
func Seconds(f windows.Filetime) float64 { return float64(units(f)) / 1e7 }

func units(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }

// Below lists the processes below one that this process may ask for their times.
func Below(root int) ([]int, error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("the processes cannot be listed: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	children := map[int][]int{}
	e := windows.ProcessEntry32{}
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Process32First(snapshot, &e); err == nil; err = windows.Process32Next(snapshot, &e) {
		up := int(e.ParentProcessID)
		children[up] = append(children[up], int(e.ProcessID))
	}
	return descend(root, children, func(pid int) int64 {
		t, err := TimesOf(pid)
		if err != nil {
			return -1
		}
		return t.Started
	}), nil
}
