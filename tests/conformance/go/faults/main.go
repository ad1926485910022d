// SPDX-License-Identifier: MIT

// Command faults recovers from bad memory accesses many times and in many
// goroutines, whose stacks are small.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

type thing struct {
	pad   [300]byte
	value int
}

//go:noinline
func readThing(t *thing) int { return t.value }

func catchPanic(f func()) (text string) {
	defer func() {
		err, ok := recover().(runtime.Error)
		if ok {
			text = err.Error()
		}
	}()
	f()
	return "nothing"
}

func main() {
	var group sync.WaitGroup
	counts := make([]int, 100)
	for id := range counts {
		group.Go(func() {
			for range 100 {
				if catchPanic(func() { readThing(nil) }) != "nothing" {
					counts[id]++
				}
				runtime.Gosched() // so that all goroutines run at the same time
			}
		})
	}
	group.Wait()
	fmt.Println(counts)
}
