// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	"skep/internal/load"
	lent "skep/shimos/part"
)

// openHeld holds the console of a kernel that a test plays, and finds it.
func openHeld(t *testing.T) (*lent.Holder, *lent.Console) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "held")
	h, err := lent.Hold(dir, 12, "twelve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	c, err := findConsole(dir, "twelve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return h, c
}

// takeTyped reads as a kernel does.
func takeTyped(t *testing.T, h *lent.Holder, want string) {
	t.Helper()
	limit, tick := time.After(load.Stretch(20*time.Second)), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for got := ""; got != want; {
		select {
		case <-limit:
			t.Errorf("typed %q, want %q", got, want)
			return
		case <-tick.C:
		}
		b := make([]byte, 100)
		got += string(b[:h.Typed(b)])
	}
}

// Each key reaches the kernel, also Ctrl-C, and the terminal is as before, however it ends.
func TestConsoleOnATerminal(t *testing.T) {
	for _, c := range []struct {
		what string
		end  func(keys *os.File, h *lent.Holder, stop func())
		code int
		says string
	}{
		{"left", func(keys *os.File, h *lent.Holder, stop func()) { keys.WriteString("~.") }, 0, "the kernel goes on; 'skep part console 12' shows it again"},
		{"a signal", func(keys *os.File, h *lent.Holder, stop func()) { stop() }, exitStopped, ""},
		{"the end", func(keys *os.File, h *lent.Holder, stop func()) {
			h.Finish(lent.End{Code: 9})
			h.Wait(context.Background())
			h.Close()
		}, 0, ""},
		{"a killed holder", func(keys *os.File, h *lent.Holder, stop func()) { h.Close() }, cli.Failed, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			h, console := openHeld(t)
			keys, program := openTerminal(t)
			input := os.Stdin
			os.Stdin = program
			defer func() { os.Stdin = input }()
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				awaitRaw(t, program)
				keys.WriteString("a\x03\x1a\x04\r")
				takeTyped(t, h, "a\x03\x1a\x04\r")
				if rows, columns := h.Size(); rows != 33 || columns != 77 {
					t.Errorf("%d rows, %d columns", rows, columns)
				}
				c.end(keys, h, stop)
			}()
			var end *lent.End
			text := printedBy(t, &os.Stderr, func() { end, err = attachConsole(ctx, console) })
			if code, _ := cli.ExitCode(consoleErrorOf(err)); code != c.code || !strings.Contains(text, c.says) || (end != nil) != (c.what == "the end") {
				t.Errorf("%d, %v, %v, %q", code, end, err, text)
			}
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
			}
		})
	}
}

func consoleErrorOf(err error) error {
	if err == nil {
		return nil
	}
	return consoleError(err)
}

// awaitRaw waits until the terminal passes keys on.
func awaitRaw(t *testing.T, f *os.File) {
	limit, tick := time.After(load.Stretch(20*time.Second)), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		modes, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		if err == nil && modes.Lflag&unix.ISIG == 0 {
			return
		}
		select {
		case <-limit:
			t.Error("the terminal is not raw")
			return
		case <-tick.C:
		}
	}
}

func TestConsolesThatAreNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "held")
	if _, err := findConsole(dir, ""); err == nil || !strings.Contains(err.Error(), "there is no kernel without a console: 'skep part linux --detach' boots") {
		t.Errorf("%v", err)
	}
	if _, err := findConsole(dir, "two"); err == nil {
		t.Error("a console of nobody")
	}
	if code, text := cli.ExitCode(consoleError(&os.PathError{Op: "mkdir", Path: lent.HeldFolder, Err: unix.EACCES})); code != cli.Refused || !strings.Contains(text, "only root can show") {
		t.Errorf("%d, %q", code, text)
	}
	if code, text := cli.ExitCode(endError(lent.End{Code: 4, Text: "no root"})); code != 4 || text != "no root" {
		t.Errorf("%d, %q", code, text)
	}
	if code, text := cli.ExitCode(endError(lent.End{})); code != 0 || text != "" {
		t.Errorf("%d, %q", code, text)
	}
	if err := consoleError(&lent.KilledError{ID: 3}); !errors.As(err, new(*lent.KilledError)) {
		t.Errorf("%v", err)
	}
}

// What part hold is for is not typed.
func TestConsoleWords(t *testing.T) {
	for line, want := range map[string]string{
		"console a b":                    "at most one partition is expected",
		"hold x":                         `"x"`,
		"hold":                           "skep starts this command itself",
		"linux --root / --name x --on y": "--name is for a partition that is made by --cpus",
	} {
		_, code, text := outputOf(t, append([]string{"part"}, strings.Fields(line)...)...)
		if code != cli.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %d, %q", line, code, text)
		}
	}
}

// A kernel that cannot be booted is refused by the process that would hold its console.
func TestDetachedRefusals(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &partBoot{bootOrder: bootOrder{Initrd: text, Kernel: text}}
	h := partHold{order: p.bootOrder}
	_, err := h.boot(t.Context())
	if code, says := cli.ExitCode(err); code != cli.Refused || !strings.Contains(says, text+": it is not a bzImage") {
		t.Errorf("%d, %q", code, says)
	}
	if note, err := bootEnd(lent.EndRestart, nil, nil); note != "the kernel ended: it restarted" || err != nil {
		t.Errorf("%q, %v", note, err)
	}
	for _, c := range []struct {
		end  lent.LinuxEnd
		err  error
		code int
	}{{lent.EndPanic, nil, cli.Failed}, {"", &lent.ProgramError{Code: 7}, 7}, {"", context.Canceled, exitStopped}, {lent.EndProgram, nil, 0}} {
		if note, err := bootEnd(c.end, c.err, nil); note != "" {
			t.Errorf("%q", note)
		} else if code, _ := cli.ExitCode(err); code != c.code {
			t.Errorf("%v, %v: %d", c.end, c.err, code)
		}
	}
}
