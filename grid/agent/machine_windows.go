// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

const systemIsWindows = true

var (
	kernel32           = windows.NewLazySystemDLL("kernel32.dll")
	ntdll              = windows.NewLazySystemDLL("ntdll.dll")
	globalMemoryStatus = kernel32.NewProc("GlobalMemoryStatusEx")
	wineGetVersion     = ntdll.NewProc("wine_get_version")
)

func systemText() string { return describeSystem(wineGetVersion) }

// describeSystem is given Wine's function for its version, which Windows lacks.
func describeSystem(wineVersion *windows.LazyProc) string {
	if wineVersion.Find() == nil {
		p, _, _ := wineVersion.Call()
		return "Wine " + windows.BytePtrToString(*(**byte)(unsafe.Pointer(&p))) + " on this machine"
	}
	v := windows.RtlGetVersion()
	return fmt.Sprintf("Windows %d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}

type memoryStatus struct {
	length, load                    uint32
	totalPhys, availPhys            uint64
	totalPageFile, availPageFile    uint64
	totalVirtual, availVirtual, ext uint64
}

// memoryInfo returns the total bytes, and those available without swapping.
func memoryInfo() (total, free uint64) {
	m := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&m))); ok == 0 {
		return 0, 0
	}
	return m.totalPhys, min(m.availPhys, m.availPageFile)
}

// guestPath is a file's name as a worker sees it, below bee's --root.
func guestPath(root, path string) (string, error) {
	below, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(below) {
		return "", fmt.Errorf("%s does not lie below %s", path, root)
	}
	return "/" + filepath.ToSlash(below), nil
}

// createJob is replaced in tests: Wine refuses no job object.
var createJob = windows.CreateJobObject

// protectAgent puts this process under a job that dies with it, so that
// whatever it starts does too, however it ends.
func protectAgent() error {
	job, err := createJob(nil, nil)
	if err != nil {
		return fmt.Errorf("the job object of workers cannot be made: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		return fmt.Errorf("workers cannot be put under a job object: %w", err)
	}
	return nil // the handle stays open as long as this process lives
}

// freeBytes is the free space of a directory's volume for this user.
func freeBytes(dir string) (free uint64) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil || windows.GetDiskFreeSpaceEx(name, &free, nil, nil) != nil {
		return 0
	}
	return free
}
