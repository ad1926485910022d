// SPDX-License-Identifier: MIT

// Command timers checks sleeps, timers, tickers and contexts with a limit.
package main

import (
	"context"
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	time.Sleep(20 * time.Millisecond)
	fmt.Println("slept", time.Since(start) >= 20*time.Millisecond)
	fmt.Println("not for long", time.Since(start) < 2*time.Second)

	order := make(chan int, 3)
	for _, n := range []int{3, 1, 2} {
		time.AfterFunc(time.Duration(n)*60*time.Millisecond, func() { order <- n })
	}
	fmt.Println("order", <-order, <-order, <-order)

	ticker := time.NewTicker(5 * time.Millisecond)
	for range 5 {
		<-ticker.C
	}
	ticker.Stop()
	stopped := time.NewTimer(time.Hour)
	fmt.Println("stopped", stopped.Stop())

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	fmt.Println(ctx.Err())

	select {
	case <-order:
		fmt.Println("BAD")
	case <-time.After(10 * time.Millisecond):
		fmt.Println("after")
	}

	// Preemption: a loop without calls does not prevent other goroutines from
	// running.
	done := make(chan bool)
	go func() {
		time.Sleep(10 * time.Millisecond)
		close(done)
	}()
	for n := 0; ; n++ {
		select {
		case <-done:
			fmt.Println("preempted")
			return
		default:
		}
	}
}
