// SPDX-License-Identifier: MIT

//go:build linux

package lab

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/yamux"

	"skep/lab/wire"
)

// guestOf returns a guest whose QEMU has ended, and the guest's end of its session.
func guestOf(t *testing.T, script, console string) (*Guest, *yamux.Session) {
	t.Helper()
	g, v := deadGuest(t, script, console, "")
	ours, theirs := net.Pipe()
	var err error
	if v.session, err = yamux.Client(ours, wire.Yamux(io.Discard)); err != nil {
		t.Fatal(err)
	}
	inside, err := yamux.Server(theirs, wire.Yamux(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.session.Close(); inside.Close() })
	v.gone = make(chan struct{})
	g.vm = v
	return g, inside
}

// A requested end counts as such only if nothing else ended the guest.
func TestGuest_endThatWasAsked(t *testing.T) {
	const off, panicked = "reboot: Power down\n", "Kernel panic - not syncing: a\n"
	for _, c := range []struct {
		name, script, console string
		end                   ending
		want                  string // the expected cause; empty: none
	}{
		{"turned off", "true", off, turningOff, ""},
		{"restarted", "true", off, restarting, ""},
		{"panic while turning off", "true", panicked, turningOff, "not syncing: a"},
		{"panic while restarting", "true", panicked, restarting, "not syncing: a"},
		{"QEMU fails while turning off", "exit 1", off, turningOff, "QEMU failed"},
		{"QEMU fails while restarting", "exit 1", off, restarting, "QEMU failed"},
		{"nobody asked", "true", off, 0, "nobody had asked for it"},
		{"a panic that was expected", "true", panicked, panicking, ""},
		{"a panic that nobody expected", "true", panicked, unwanted, "not syncing: a"},
		{"off in place of a panic", "true", off, panicking, "nobody had asked for it"},
		{"QEMU fails in place of a panic", "exit 1", panicked, panicking, "QEMU failed"},
	} {
		g, _ := guestOf(t, c.script, c.console)
		g.end = c.end
		g.judgeEnd(g.vm)
		got := g.cause
		if (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
		boots := c.want == "" && (c.end == restarting || c.end == panicking)
		select {
		case <-g.done:
			if boots {
				t.Errorf("%s: it may not boot again", c.name)
			}
		default:
			if !boots {
				t.Errorf("%s: it never ends", c.name)
			}
		}
	}
}

// Run returns the program's status. A guest that has ended runs no program.
func TestGuest_run(t *testing.T) {
	g, inside := guestOf(t, "true", "")
	go func() {
		c, err := inside.Accept()
		if err != nil {
			return
		}
		var r wire.Request
		if err := wire.Read(c, &r); err != nil || r.Op != wire.Run {
			t.Errorf("%+v, %v", r, err)
		}
		discardInput(c)
		sendExit(c, 7)
	}()
	if status, err := g.Run(t.Context(), Program{Args: []string{"x"}}, Streams{}); status != 7 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	g.end = turningOff
	g.judgeEnd(g.vm)
	var dead *DeadError
	if status, err := g.Run(t.Context(), Program{Args: []string{"x"}}, Streams{}); !errors.As(err, &dead) {
		t.Errorf("a guest that is off: %d, %v", status, err)
	}
	if err := g.Reboot(t.Context()); !errors.As(err, &dead) {
		t.Errorf("a guest that is off boots again: %v", err)
	}
}
