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

// parent is the process that started this one: `go test` or a shell.
var parent = os.Getppid()

// guests are the running guests. The mutex guards them.
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

// watchParent ends this process when its parent ends, so that machines do not outlive a killed
// `go test`. The kernel's parent-death signal cannot be used: it is sent when the thread that
// started this process ends, and Go may end threads at any time.
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
