// SPDX-License-Identifier: MIT

//go:build linux

package engine

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// The engine leaves the process's signals to the hub: SIGUSR2 would make the server drain
// its connections, and SIGTERM end the process.
func TestEngineTakesNoSignals(t *testing.T) {
	e := startEngine(t, t.TempDir())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGUSR2, syscall.SIGTERM)
	defer signal.Stop(signals)
	for _, s := range []syscall.Signal{syscall.SIGUSR2, syscall.SIGTERM} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-signals
	}
	for range 100 { // time for a server that ends
		if _, err := e.Conn().RTT(); err != nil {
			t.Fatal(err)
		}
	}
}
