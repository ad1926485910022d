// SPDX-License-Identifier: MIT

// Package service is what a program needs to be a service of systemd or of
// Windows: it tells the manager how it does, writes to the system's log, and
// installs and removes itself.
package service

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Notifier tells systemd how the service does, as sd_notify(3) describes. One
// without a socket says nothing: nobody asked.
type Notifier struct {
	conn     net.Conn
	watchdog time.Duration // systemd waits so long for a sign of life; 0: for ever
}

// Variables that systemd sets. What this program starts must not speak for it.
const (
	notifySocket = "NOTIFY_SOCKET"
	watchdogTime = "WATCHDOG_USEC"
	watchdogPID  = "WATCHDOG_PID"
)

// NewNotifier reads the variables of systemd and removes them.
func NewNotifier() (*Notifier, error) {
	address, limit, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{notifySocket, watchdogTime, watchdogPID} {
		os.Unsetenv(name)
	}
	n := &Notifier{}
	if address == "" {
		return n, nil
	}
	conn, err := net.Dial("unixgram", address)
	if err != nil {
		return n, err
	}
	n.conn = conn
	micros, err := strconv.ParseInt(limit, 10, 64)
	if err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(micros) * time.Microsecond
	}
	return n, nil
}

// Ready says that the service does its work, and in one line how.
func (n *Notifier) Ready(status string) { n.send("READY=1\nSTATUS=" + oneLine(status)) }

// Status says in one line how the service does.
func (n *Notifier) Status(status string) { n.send("STATUS=" + oneLine(status)) }

// Stopping says that the service ends, and that this may take a while.
func (n *Notifier) Stopping() { n.send("STOPPING=1\nSTATUS=stopping") }

// Alive is a sign of life.
func (n *Notifier) Alive() {
	if n.watchdog > 0 {
		n.send("WATCHDOG=1")
	}
}

// Watch gives a sign of life while check succeeds, until ctx ends.
func (n *Notifier) Watch(ctx context.Context, check func(context.Context) error) {
	if n.watchdog == 0 {
		return
	}
	period := n.watchdog / 3
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, period)
		err := check(limited)
		cancel()
		if err == nil {
			n.Alive()
		} else if ctx.Err() == nil {
			n.Status("does not answer itself: " + err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send can't do anything about an error: systemd then counts what it never got.
func (n *Notifier) send(state string) {
	if n.conn != nil {
		n.conn.Write([]byte(state))
	}
}

// oneLine keeps text from becoming another assignment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
