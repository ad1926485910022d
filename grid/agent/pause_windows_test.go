// SPDX-License-Identifier: MIT

package agent

import (
	"slices"
	"testing"

	"golang.org/x/sys/windows"
)

// resumed has its functions called for each thread that is resumed of a paused program, and
// counts them.
func resumed(t *testing.T, see func()) *int {
	n := new(int)
	real := resumeThread
	resumeThread = func(h windows.Handle) (uint32, error) {
		*n++
		see()
		return real(h)
	}
	t.Cleanup(func() { resumeThread = real })
	return n
}

// A program that was paused goes on while bee, its debugger, is suspended, and bee goes on
// afterwards. After a program was ended, none of its threads is resumed: see suspension.
func TestResumedPrograms(t *testing.T) {
	r := newOwned(t, beeProgram(t), "use all", 1)
	call := r.start(fnCompute, nil)
	worker := r.awaitPrograms(1)[0]
	waitUntil(t, "a worker that computes", func() bool { return len(below(t, worker)) > 0 })
	n := resumed(t, func() {
		if all, _ := suspended([]int{worker.pid}); !all {
			t.Error("bee runs while a thread is resumed")
		}
	})
	worker.setPaused(true)
	waitUntil(t, "a worker that is suspended", func() bool { return isStopped(worker) })
	worker.setPaused(false)
	if *n == 0 {
		t.Error("no thread was resumed")
	}
	waitUntil(t, "bee that goes on, and its program", func() bool {
		list := append(below(t, worker), worker.pid)
		return !slices.ContainsFunc(threads(), func(s threadState) bool {
			return s.count > 0 && slices.Contains(list, s.pid)
		})
	})
	worker.setPaused(true)
	worker.kill()
	*n = 0
	worker.setPaused(false)
	if *n != 0 {
		t.Errorf("%d threads of a program that was ended were resumed", *n)
	}
	<-worker.done
	r.cancel(call)
}
