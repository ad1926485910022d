// SPDX-License-Identifier: MIT

// Command gowork is a static Go guest for bee: goroutines, the garbage
// collector, a recovered nil dereference, TCP over loopback, and timers.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

func runGoroutines() int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for i := 0; i < 50; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; j < 100; j++ {
				b := make([]byte, 1<<12)
				b[j] = byte(i)
				mu.Lock()
				sum += int(b[j])
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	runtime.GC()
	return sum
}

func catchFault() (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	var p *[4]int
	p[2] = 1
	return "no fault"
}

func echoTCP() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	fmt.Fprint(c, "round trip")
	c.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(c)
	return string(b), err
}

func main() {
	fmt.Println("goroutines", runGoroutines())
	fmt.Println("fault", catchFault())
	text, err := echoTCP()
	fmt.Println("tcp", text, err)
	start := time.Now()
	<-time.After(30 * time.Millisecond)
	fmt.Println("timer", time.Since(start) >= 30*time.Millisecond)
	os.Exit(5)
}
