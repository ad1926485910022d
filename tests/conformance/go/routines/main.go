// SPDX-License-Identifier: MIT

// Command routines exercises goroutines, channels, locks and the collector.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

type node struct {
	left, right *node
	value       int
}

func makeTree(depth int) *node {
	if depth == 0 {
		return &node{value: 1}
	}
	return &node{left: makeTree(depth - 1), right: makeTree(depth - 1), value: depth}
}

func (n *node) sum() int {
	if n == nil {
		return 0
	}
	return n.value + n.left.sum() + n.right.sum()
}

func runPipeline() int {
	numbers, squares := make(chan int), make(chan int, 10)
	var workers sync.WaitGroup
	for range 50 {
		workers.Go(func() {
			for n := range numbers {
				squares <- n * n
			}
		})
	}
	go func() {
		for i := range 5000 {
			numbers <- i
		}
		close(numbers)
		workers.Wait()
		close(squares)
	}()
	sum := 0
	for s := range squares {
		sum += s
	}
	return sum
}

func countLocked() int64 {
	var mutex sync.RWMutex
	var count atomic.Int64
	var group sync.WaitGroup
	table := map[int]int{}
	for id := range 20 {
		group.Go(func() {
			for i := range 300 {
				mutex.Lock()
				table[(id*i)%97]++
				mutex.Unlock()
				count.Add(1)
				mutex.RLock()
				_ = table[i]
				mutex.RUnlock()
				if i%50 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	group.Wait()
	total := int64(0)
	for _, n := range table {
		total += int64(n)
	}
	return total + count.Load()
}

func recurse(n int) int {
	var block [200]int
	block[n%200] = n
	if n == 0 {
		return 0
	}
	return recurse(n-1) + block[n%200] - n + 1
}

func main() {
	fmt.Println("args", len(os.Args), "env", os.Getenv("CONF_ENV"))
	fmt.Println("pipeline", runPipeline())
	fmt.Println("locks", countLocked())
	grown := make(chan int)
	go func() { grown <- recurse(20000) }()
	fmt.Println("deep", <-grown)
	keep := makeTree(12)
	for range 30 {
		if makeTree(13).sum() == 0 {
			fmt.Println("lost")
		}
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Println("kept", keep.sum(), "collected", stats.NumGC > 1)
	fmt.Println(strings.Repeat("=", 40))
	os.Exit(3)
}
