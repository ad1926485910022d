// SPDX-License-Identifier: MIT

// Command signals sends signals to itself and receives them by os/signal.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	heard := make(chan os.Signal, 10)
	signal.Notify(heard, syscall.SIGUSR1, syscall.SIGHUP)
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGUSR1} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			fmt.Println("BAD", err)
		}
		select {
		case got := <-heard:
			fmt.Println("heard", got)
		case <-time.After(5 * time.Second):
			fmt.Println("BAD nothing heard")
		}
	}
	signal.Ignore(syscall.SIGUSR1)
	fmt.Println("ignored", signal.Ignored(syscall.SIGUSR1))
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	signal.Reset(syscall.SIGHUP)
	fmt.Println("now dies of", syscall.SIGTERM)
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(5 * time.Second)
	fmt.Println("BAD still here")
}
