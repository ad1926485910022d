// SPDX-License-Identifier: MIT

// The Go program that tests run on a partition: goroutines that compute, that
// wait for one another, and that sleep, while the garbage collector runs.
package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// sumPart returns the sum of a part, and allocates garbage.
func sumPart(part, parts, n int) (sum int) {
	for i := part; i < n; i += parts {
		sum += len(make([]byte, i%64)) - i%64 + i
	}
	return sum
}

func main() {
	const parts, n = 16, 1000000
	sums := make(chan int)
	var all sync.WaitGroup
	for part := range parts {
		all.Go(func() {
			time.Sleep(time.Millisecond)
			sums <- sumPart(part, parts, n)
		})
	}
	go func() {
		all.Wait()
		close(sums)
	}()
	total := 0
	for s := range sums {
		total += s
	}
	runtime.GC()
	fmt.Println("procs", runtime.GOMAXPROCS(0), "sum", total)
}
