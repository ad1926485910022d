// SPDX-License-Identifier: MIT

//go:build linux

package vmtest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skep/lab"
)

// holding is this process's share of the lock on build/lab/.lock. Only one test of the process
// has machines at a time; the machines of that test are counted.
var holding struct {
	sync.Mutex
	file  *os.File
	owner string
	count int
}

// Held is an environment variable. A test that holds the lock sets it for tests that it runs in
// another process.
const Held = "SKEP_VM_LOCK_HELD"

// Lock takes the lock for a test whose machines another program boots. Until the test ends, no
// other test of this build folder has machines.
func Lock(t *testing.T) { lockMachine(t) }

// lockMachine waits until no other test of this build folder has a machine, and holds
// the lock until the end of the test. The kernel drops it with the process.
func lockMachine(t *testing.T) {
	t.Helper()
	if os.Getenv(Held) != "" {
		return
	}
	owner, _, _ := strings.Cut(t.Name(), "/")
	end := time.Now().Add(time.Hour)
	if d, ok := t.Deadline(); ok {
		end = d.Add(-margin)
	}
	said := false
	for {
		holder, err := tryLock(owner)
		if err != nil {
			t.Fatal(err)
		}
		if holder == "" {
			t.Cleanup(unlockMachine)
			return
		}
		if !said {
			t.Logf("waiting for %s, which has a machine", holder)
			said = true
			// This wait must not be measured.
			noFirst()
		}
		if time.Now().After(end) {
			t.Fatalf("no machine was free: %s has one; wait for it, or end it", holder)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tryLock tries to take the lock. It returns the holder's name if another process has it.
func tryLock(owner string) (holder string, err error) {
	holding.Lock()
	defer holding.Unlock()
	if holding.count > 0 {
		if holding.owner != owner {
			return holding.owner, nil
		}
		holding.count++
		return "", nil
	}
	build, err := lab.BuildDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(build, "lab", ".lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if os.IsPermission(err) {
		return "", fmt.Errorf("the machines of this build folder are another user's: %w", err)
	}
	if err != nil {
		return "", err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		defer f.Close()
		name, _ := io.ReadAll(io.LimitReader(f, 256))
		return "the holder of " + path + ": " + orNone(string(name)), nil
	}
	if err == nil {
		err = writeOwner(f, owner)
	}
	if err != nil {
		f.Close()
		return "", fmt.Errorf("lock %s: %w", path, err)
	}
	holding.file, holding.owner, holding.count = f, owner, 1
	return "", nil
}

// writeOwner writes the holder's name to the file.
func writeOwner(f *os.File, owner string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%s, process %d\n", owner, os.Getpid()), 0)
	return err
}

func unlockMachine() {
	holding.Lock()
	defer holding.Unlock()
	if holding.count--; holding.count == 0 {
		holding.file.Close()
		holding.file = nil
	}
}
