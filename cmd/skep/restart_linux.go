// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// restartSignals receives the signal that 'systemctl reload' sends to a hub or an
// agent: it asks them to restart when they are idle.
func restartSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	return c
}
