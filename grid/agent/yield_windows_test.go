// SPDX-License-Identifier: MIT

package agent

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A process gets the lowest priorities where the system knows them. What the system refuses
// is said, and what it does not tell is not known: Wine 8 has neither priority.
func TestYieldToOwner(t *testing.T) {
	err := yieldToOwner(uint32(os.Getpid()))
	if err != nil && wineGetVersion.Find() == nil {
		checkText(t, "under Wine", err, "disk priority")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var disk uint32
	status, _, _ := ntdll.NewProc("NtQueryInformationProcess").Call(uintptr(windows.CurrentProcess()),
		processIoPriority, uintptr(unsafe.Pointer(&disk)), unsafe.Sizeof(disk), 0)
	if status != 0 || disk != ioPriorityVeryLow {
		t.Errorf("disk priority %d, status %#x", disk, status)
	}
}

func TestYieldToOwnerOfNoProcess(t *testing.T) {
	checkText(t, "a process that is not there", yieldToOwner(1), "OpenProcess")
}
