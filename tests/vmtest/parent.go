// SPDX-License-Identifier: MIT

//go:build linux

package vmtest

import (
	"fmt"
	"os"
	"sync"
	"time"

	"skep/lab"
)

// parent is who started this process: `go test`, or a person's shell.
var parent = os.Getppid()

// guests are those that run, guarded by the mutex.
var guests struct {
	sync.Mutex
	once sync.Once
	list map[*lab.Guest]bool
}

func keepGuest(g *lab.Guest) {
	guests.Lock()
	defer guests.Unlock()
	if guests.list == nil {
		guests.list = map[*lab.Guest]bool{}
	}
	guests.list[g] = true
}

func forgetGuest(g *lab.Guest) {
	guests.Lock()
	defer guests.Unlock()
	delete(guests.list, g)
}

// watchParent ends this process when its parent does: a killed `go test` takes
// its machines along. The kernel's own signal for that would come with the end
// of the thread that started us, which Go may end at any time.
func watchParent() {
	guests.once.Do(func() {
		go func() {
			for os.Getppid() == parent {
				time.Sleep(200 * time.Millisecond)
			}
			guests.Lock()
			for g := range guests.list {
				g.Kill()
			}
			fmt.Fprintln(os.Stderr, "vmtest: the process that started this test is gone")
			os.Exit(1)
		}()
	})
}
