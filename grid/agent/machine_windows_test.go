// SPDX-License-Identifier: MIT

package agent

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

// Windows lacks Wine's function, as these tests lack Windows.
func TestSystemText(t *testing.T) {
	if s := systemText(); !strings.HasPrefix(s, "Wine ") && !strings.HasPrefix(s, "Windows ") {
		t.Errorf("this system is %q", s)
	}
	s := describeSystem(ntdll.NewProc("no_such_function"))
	if !regexp.MustCompile(`^Windows \d+\.\d+\.\d+$`).MatchString(s) {
		t.Errorf("Windows is %q", s)
	}
}

// A job object may be refused, and so may what is asked of it. The agent must not go on: its
// workers would outlive it.
func TestRefusedJob(t *testing.T) {
	defer func(create func(*windows.SecurityAttributes, *uint16) (windows.Handle, error)) { createJob = create }(createJob)
	for what, want := range map[windows.Errno]string{
		windows.ERROR_ACCESS_DENIED: "the job object of workers cannot be made: ",
		0:                           "workers cannot be put under a job object: ",
	} {
		createJob = func(*windows.SecurityAttributes, *uint16) (windows.Handle, error) {
			if what != 0 {
				return 0, what
			}
			return windows.CreateEvent(nil, 1, 0, nil) // no job
		}
		if err := protectAgent(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
