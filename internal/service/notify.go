// SPDX-License-Identifier: MIT

// Package service lets a program be a service of systemd: it reports its status to systemd,
// writes to the journal, and installs and removes its units.
package service

import (
	"context"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A Notifier reports the service's status to systemd, as sd_notify(3) describes,
// or on Windows to what runs this program as a service. Without one it does
// nothing.
type Notifier struct {
	out      io.Writer
	watchdog time.Duration // systemd restarts the service if no WATCHDOG=1 comes for this long; 0: never
}

// Variables that systemd sets. Programs started by this one must not get them.
const (
	notifySocket = "NOTIFY_SOCKET"
	watchdogTime = "WATCHDOG_USEC"
	watchdogPID  = "WATCHDOG_PID"
)

type notifierKey struct{}

// WithNotifier has what runs under ctx tell out how it does, in place of systemd.
func WithNotifier(ctx context.Context, out io.Writer) context.Context {
	return context.WithValue(ctx, notifierKey{}, &Notifier{out: out})
}

// NewNotifier takes the notifier of ctx, or else reads the variables of systemd
// and removes them.
func NewNotifier(ctx context.Context) (*Notifier, error) {
	if n, ok := ctx.Value(notifierKey{}).(*Notifier); ok {
		return n, nil
	}
	address, limit, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{notifySocket, watchdogTime, watchdogPID} {
		os.Unsetenv(name)
	}
	n := &Notifier{}
	if address == "" {
		return n, nil
	}
	// Go ends a program that panics or is aborted with the code 2, which is that
	// of a wrong option here: units do not restart a service after it. This has
	// it end by SIGABRT.
	debug.SetTraceback("crash")
	conn, err := net.Dial("unixgram", address)
	if err != nil {
		return n, err
	}
	n.out = conn
	micros, err := strconv.ParseInt(limit, 10, 64)
	if err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(micros) * time.Microsecond
	}
	return n, nil
}

// Ready reports that the service is ready, with its status in one line.
func (n *Notifier) Ready(status string) { n.send("READY=1\nSTATUS=" + oneLine(status)) }

// Status reports the service's status in one line.
func (n *Notifier) Status(status string) { n.send("STATUS=" + oneLine(status)) }

// Stopping reports that the service is ending, which may take a while.
func (n *Notifier) Stopping() { n.send("STOPPING=1\nSTATUS=stopping") }

// Alive sends WATCHDOG=1.
func (n *Notifier) Alive() {
	if n.watchdog > 0 {
		n.send("WATCHDOG=1")
	}
}

// Watch calls Alive regularly, as long as check succeeds, until ctx ends.
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

// send ignores errors: systemd notices a missing message by itself.
func (n *Notifier) send(state string) {
	if n.out != nil {
		n.out.Write([]byte(state))
	}
}

// ReadNews takes apart what a Notifier sends.
func ReadNews(state string) (ready bool, status string) {
	for _, line := range strings.Split(state, "\n") {
		if text, ok := strings.CutPrefix(line, "STATUS="); ok {
			status = text
		}
		ready = ready || line == "READY=1"
	}
	return ready, status
}

// oneLine removes newlines, so that text cannot contain another assignment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
