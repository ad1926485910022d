// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"skep/grid/policy"
	"skep/internal/proctree"
)

var (
	keybdEvent             = windows.NewLazySystemDLL("user32.dll").NewProc("keybd_event")
	queryInformationThread = ntdll.NewProc("NtQueryInformationThread")
)

const (
	threadSuspendCount = 35 // of THREADINFOCLASS
	keyF24             = 0x87
	keyUp              = 2
)

func init() { roles["owners-program"] = func([]string) { runOwnersProgram() } }

// runOwnersProgram is a program of the machine's owner, for a test that watches it: each
// line that it reads is a key that the owner presses, and it prints a line every 10 ms.
func runOwnersProgram() {
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			keybdEvent.Call(keyF24, 0, 0, 0)
			keybdEvent.Call(keyF24, 0, keyUp, 0)
		}
		os.Exit(0)
	}()
	for range time.Tick(10 * time.Millisecond) {
		fmt.Println("tick")
	}
}

// An ownersProgram is that program as the test sees it.
type ownersProgram struct {
	t     *testing.T
	keys  *os.File
	ticks chan struct{} // closed at the program's end
}

func startOwnersProgram(t *testing.T) *ownersProgram {
	t.Helper()
	cmd := exec.Command(os.Args[0], "owners-program")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = read
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	t.Cleanup(func() {
		write.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	o := &ownersProgram{t, write, make(chan struct{})}
	go func() {
		defer close(o.ticks)
		for in := bufio.NewScanner(out); in.Scan(); {
			select {
			case o.ticks <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return o
}

// pressKey is the input of the owner.
func (o *ownersProgram) pressKey() {
	o.t.Helper()
	if _, err := o.keys.WriteString("\n"); err != nil {
		o.t.Fatal(err)
	}
}

// works waits until the program has printed n more lines: it was not suspended.
func (o *ownersProgram) works(n int) {
	o.t.Helper()
	late := time.After(testTimeout)
	for range n {
		select {
		case _, on := <-o.ticks:
			if !on {
				o.t.Fatal("the owner's program has ended")
			}
		case <-late:
			o.t.Fatalf("the owner's program did not work for %v", testTimeout)
		}
	}
}

// A threadState is one thread of the machine, and how often it is suspended.
type threadState struct{ pid, count int }

// threads asks for all threads of the machine that this process may ask about.
func threads() (list []threadState) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		panic(err)
	}
	defer windows.CloseHandle(snapshot)
	e := windows.ThreadEntry32{}
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Thread32First(snapshot, &e); err == nil; err = windows.Thread32Next(snapshot, &e) {
		h, err := windows.OpenThread(windows.THREAD_QUERY_INFORMATION, false, e.ThreadID)
		if err != nil {
			continue // it has ended
		}
		var count uint32
		status, _, _ := queryInformationThread.Call(uintptr(h), threadSuspendCount, uintptr(unsafe.Pointer(&count)), 4, 0)
		windows.CloseHandle(h)
		if status == 0 {
			list = append(list, threadState{int(e.OwnerProcessID), int(count)})
		}
	}
	return list
}

// suspended says whether all threads of these processes are suspended, and which other
// processes have a thread that is. Go's run-time suspends threads of its own for a moment,
// and a debugger those of its program.
func suspended(pids []int) (all bool, others []int) {
	n := 0
	all = true
	for _, s := range threads() {
		switch {
		case slices.Contains(pids, s.pid):
			n++
			all = all && s.count > 0
		case s.count > 0:
			others = append(others, s.pid)
		}
	}
	return all && n > 0, others
}

// usedBy is the processor time of processes.
func usedBy(t *testing.T, pids []int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		v, err := proctree.TimesOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		sum += v.Used
	}
	return sum
}

func below(t *testing.T, p *process) []int {
	t.Helper()
	list, err := proctree.Below(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The owner presses a key: within a look all threads of the worker are suspended, and no
// other thread of the machine is. The owner's own program goes on all the time. When the
// owner has been away for long enough, the worker goes on.
func TestOwnerPausesByInput(t *testing.T) {
	const away = 2 * time.Second
	p, err := policy.Parse([]byte("use all when idle 2s\npause 1h\nsettle 0s"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOf(t, Config{State: tempDir(t), Slots: 1, Bee: beeProgram(t), Policy: p, PolicyName: "test"})
	defer r.startOwner(t.Context())()
	mine := startOwnersProgram(t)
	mine.works(1)
	call := r.start(fnCompute, nil)
	worker := r.awaitPrograms(1)[0]
	for range 2 {
		waitUntil(t, "a worker that computes", func() bool {
			list := below(t, worker)
			return len(list) > 0 && !worker.isPaused() && usedBy(t, list) > 0
		})
		_, before := suspended(nil) // other tests start programs that wait
		mine.pressKey()
		pressed := time.Now()
		var stay []int // suspended each time that the worker was
		defer func() {
			if t.Failed() {
				t.Logf("others with suspended threads: %v, before the key %v", stay, before)
			}
		}()
		seen := false
		waitUntil(t, "a worker that is suspended, and nothing else", func() bool {
			all, others := suspended(below(t, worker))
			if !all || !worker.isPaused() {
				seen = false
				return false
			}
			stay = slices.DeleteFunc(others, func(pid int) bool {
				return slices.Contains(before, pid) || seen && !slices.Contains(stay, pid)
			})
			seen = true
			return len(stay) == 0
		})
		t.Logf("suspended %v after the key", time.Since(pressed))
		list := below(t, worker)
		waitUntil(t, "a worker that uses nothing", func() bool { // a thread stops when it is next interrupted
			before := usedBy(t, list)
			mine.works(30)
			return usedBy(t, list) == before
		})
		waitUntil(t, "a worker that goes on", func() bool { return !worker.isPaused() })
		if gone := time.Since(pressed); gone < away {
			t.Errorf("it went on %v after the key", gone)
		}
		waitUntil(t, "threads that are resumed", func() bool {
			for _, s := range threads() {
				if s.count > 0 && slices.Contains(list, s.pid) {
					return false
				}
			}
			return true
		})
	}
	r.cancel(call)
	<-worker.done
}

// isStopped says whether all threads below bee, the debugger, are suspended.
func isStopped(p *process) bool {
	list, err := proctree.Below(p.pid)
	if err != nil || !p.isPaused() {
		return false
	}
	all, _ := suspended(list)
	return all
}
