// SPDX-License-Identifier: MIT

// Command panics recovers from faults that the CPU reports, and then ends by a panic that it
// does not recover.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

type thing struct {
	pad   [300]byte
	value int
}

//go:noinline
func readThing(t *thing) int { return t.value }

//go:noinline
func divideInts(a, b int) int { return a / b }

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
	fmt.Println(catchPanic(func() { readThing(nil) }))
	fmt.Println(catchPanic(func() { divideInts(1, len(os.Args)-1) }))
	fmt.Println(catchPanic(func() { _ = os.Args[len(os.Args)+3] }))

	debug.SetPanicOnFault(true)
	address := uintptr(0x123)
	fmt.Println(catchPanic(func() {
		_ = *(*int)(*(*unsafe.Pointer)(unsafe.Pointer(&address)))
	}) != "nothing")

	defer fmt.Println("deferred")
	panic(errors.New("the end"))
}
