// SPDX-License-Identifier: MIT

package agent

import (
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"skep/grid/proto"
)

// Each limit ends a call that exceeds it, as on Linux, and the node continues to work.
func TestLimitsOfJobs(t *testing.T) {
	r := newRig(t, beeProgram(t), 1)
	for _, c := range []struct {
		what  string
		limit proto.Limits
		name  string
	}{
		{"cpu 1", proto.Limits{CPU: 0.3}, "cpu-time"},
		{"threads 60", proto.Limits{Processes: 20}, "processes"},
		{"disk 30000000", proto.Limits{Disk: 10 * mega}, "disk"},
	} {
		f := r.mustFail(r.consumeResource(c.what, c.limit), proto.ReasonLimit, "exceeded its limit: it used")
		if !strings.Contains(f.Text, "ask for more with --"+c.name) {
			t.Errorf("%s: %s", c.what, f.Text)
		}
	}
	for range 4 { // 0.2 s each at most, and 0.5 s together: the limit is that of a call
		l := r.makeLease(fnConsume, []byte("tick 150"))
		inline.Store(l.Digest, []byte("tick 150"))
		l.Limits = proto.Limits{CPU: 0.4, Processes: 20, Disk: 10 * mega}
		r.mustSucceed(r.send(l))
	}
}

// A program does not start if its job object is refused, or what is asked of it.
func TestRefusedProgramJob(t *testing.T) {
	defer func(create func(*windows.SecurityAttributes, *uint16) (windows.Handle, error)) { createJob = create }(createJob)
	r := newRig(t, beeProgram(t), 1)
	for what, want := range map[windows.Errno]string{
		windows.ERROR_ACCESS_DENIED: "a program's job object cannot be made: ",
		0:                           "a program's job object takes no limits: ",
	} {
		createJob = func(*windows.SecurityAttributes, *uint16) (windows.Handle, error) {
			if what != 0 {
				return 0, what
			}
			return windows.CreateEvent(nil, 1, 0, nil) // no job
		}
		r.mustFail(r.start(fnEcho, nil), proto.ReasonNode, want)
	}
}
