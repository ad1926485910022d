// SPDX-License-Identifier: MIT

package agent

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"skep/internal/lockdep"
	"skep/internal/proctree"
)

var (
	suspendThread = kernel32.NewProc("SuspendThread")
	resumeThread  = windows.ResumeThread // tests replace it
)

// A suspension holds the threads of a program that were suspended. bee's own process,
// the program's parent, runs on: it is the debugger that the program needs at its faults.
//
// No thread is resumed whose process has died before its debugger: the server of Wine 8 then
// reads memory that it has freed, and crashes or loops without end.
type suspension struct {
	mu      sync.Mutex
	threads map[uint32]windows.Handle
	quit    chan struct{} // closed when the program may go on
	ended   bool          // the program was ended, or bee has ended
}

const (
	suspendRounds = 100
	suspendEvery  = 250 * time.Millisecond
)

// stop suspends the threads of all processes below p, or resumes them. While they are
// suspended it looks for more: bee may not have started the program yet.
func (s *suspension) stop(p *process, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.threads, s.quit = map[uint32]windows.Handle{}, make(chan struct{})
		if !s.ended {
			s.suspendAll(uint32(p.pid))
			go s.keep(p, s.quit)
		}
		return
	}
	close(s.quit)
	s.resumeAll(uint32(p.pid))
	s.threads = nil
}

// end calls a function that ends the program, or what is left of it when bee has ended. No
// thread is resumed after it.
func (s *suspension) end(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	how()
	for id, h := range s.threads {
		windows.CloseHandle(h)
		delete(s.threads, id)
	}
}

// resumeAll resumes the program's threads while bee is suspended: a program that dies when its
// first thread goes on still has its debugger when the last one does. The lock is held.
func (s *suspension) resumeAll(bee uint32) {
	lockdep.AssertHeld(&s.mu)
	debugger := map[uint32]windows.Handle{}
	if !s.ended {
		suspendThreads([]int{int(bee)}, debugger)
	}
	for _, h := range s.threads {
		if len(debugger) > 0 {
			resumeThread(h)
		}
		windows.CloseHandle(h)
	}
	for _, h := range debugger {
		windows.ResumeThread(h)
		windows.CloseHandle(h)
	}
}

// keep suspends new threads until quit.
func (s *suspension) keep(p *process, quit chan struct{}) {
	tick := time.NewTicker(suspendEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-p.done:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.quit == quit && s.threads != nil && !s.ended {
			s.suspendAll(uint32(p.pid))
		}
		s.mu.Unlock()
	}
}

// suspendAll suspends threads until a round finds no new one. The lock is held.
func (s *suspension) suspendAll(parent uint32) {
	lockdep.AssertHeld(&s.mu)
	for range suspendRounds {
		if s.suspendRound(parent) == 0 {
			return
		}
	}
}

// suspendRound returns how many threads it suspended. The lock is held.
func (s *suspension) suspendRound(parent uint32) (n int) {
	lockdep.AssertHeld(&s.mu)
	below, err := proctree.Below(int(parent))
	if err != nil {
		return 0
	}
	return suspendThreads(below, s.threads)
}

// suspendThreads suspends the threads of processes that are not in have, adds them to it, and
// returns how many they are.
func suspendThreads(pids []int, have map[uint32]windows.Handle) (n int) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return 0
	}
	defer windows.CloseHandle(snapshot)
	e := windows.ThreadEntry32{}
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Thread32First(snapshot, &e); err == nil; err = windows.Thread32Next(snapshot, &e) {
		if _, done := have[e.ThreadID]; done || !slices.Contains(pids, int(e.OwnerProcessID)) {
			continue
		}
		h, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			continue
		}
		if count, _, _ := suspendThread.Call(uintptr(h)); int32(count) == -1 {
			windows.CloseHandle(h)
			continue
		}
		have[e.ThreadID] = h
		n++
	}
	return n
}
