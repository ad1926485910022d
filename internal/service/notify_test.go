// SPDX-License-Identifier: MIT

//go:build linux

package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
)

// listen is systemd's end of the socket.
func listen(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv(notifySocket, path)
	return c
}

func readNotice(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	c.SetReadDeadline(time.Now().Add(load.Stretch(time.Minute)))
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestNotifierTellsSystemd(t *testing.T) {
	c := listen(t)
	t.Setenv(watchdogTime, "3000000")
	t.Setenv(watchdogPID, strconv.Itoa(os.Getpid()))
	n, err := NewNotifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{notifySocket, watchdogTime, watchdogPID} {
		if os.Getenv(name) != "" {
			t.Errorf("what this program starts has %s, and could speak for it", name)
		}
	}
	n.Ready("listens\nMAINPID=1")
	if got := readNotice(t, c); got != "READY=1\nSTATUS=listens MAINPID=1" {
		t.Errorf("ready: %q", got)
	}
	n.Alive()
	if got := readNotice(t, c); got != "WATCHDOG=1" {
		t.Errorf("alive: %q", got)
	}
	n.Stopping()
	if got := readNotice(t, c); !strings.HasPrefix(got, "STOPPING=1") {
		t.Errorf("stopping: %q", got)
	}
}

// A watchdog that is meant for another process is ignored.
func TestNotifierKeepsToItsOwnWatchdog(t *testing.T) {
	c := listen(t)
	t.Setenv(watchdogTime, "3000000")
	t.Setenv(watchdogPID, "1")
	n, err := NewNotifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.Alive()
	n.Status("last")
	if got := readNotice(t, c); got != "STATUS=last" {
		t.Errorf("got %q", got)
	}
}

// A service whose check fails sends no watchdog message.
func TestNotifierWatchesTheService(t *testing.T) {
	c := listen(t)
	t.Setenv(watchdogTime, "300000")
	n, err := NewNotifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fails := 0
	go n.Watch(ctx, func(context.Context) error {
		if fails++; fails < 3 {
			return errors.New("deaf")
		}
		return nil
	})
	for range 2 {
		if got := readNotice(t, c); !strings.Contains(got, "deaf") {
			t.Errorf("got %q", got)
		}
	}
	if got := readNotice(t, c); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
}

func TestNotifierWithoutSystemd(t *testing.T) {
	t.Setenv(notifySocket, "")
	n, err := NewNotifier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.Ready("")
	n.Alive()
	t.Setenv(notifySocket, filepath.Join(t.TempDir(), "none"))
	if n, err = NewNotifier(t.Context()); err == nil {
		t.Error("a socket that is not there is no error")
	}
	n.Ready("")
}

func TestJournalLines(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewJournalHandler(&b, slog.LevelInfo))
	log.Debug("hidden")
	log.Error("the ledger\nis incomplete", "error", errors.New("no space"), "n", 2)
	log.With("node", "pc 7").WithGroup("g").Warn("late", "by", time.Second)
	log.Info("plain")
	want := "<3>the ledger is incomplete error=\"no space\" n=2\n<4>late node=\"pc 7\" g.by=1s\n<6>plain\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// systemd identifies the journal's stream by device and inode, so redirected output gets no
// priorities.
func TestJournalStream(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := exec.Command("stat", "-c", "%d:%i", f.Name()).Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("JOURNAL_STREAM", strings.TrimSpace(string(out)))
	if !IsJournal(f) || Priority(f, slog.LevelError) != "<3>" {
		t.Error("the journal's stream is not known")
	}
	if IsJournal(os.Stdout) || Priority(os.Stdout, slog.LevelError) != "" {
		t.Error("another stream is taken for the journal's")
	}
}

// systemd aborts a service that hangs, and a fault of Go's may end one: neither
// is the code 2 of a wrong option, after which no restart helps.
func TestNotifierAborts(t *testing.T) {
	if os.Getenv(notifySocket) != "" {
		if _, err := NewNotifier(t.Context()); err != nil {
			t.Fatal(err)
		}
		syscall.Kill(os.Getpid(), syscall.SIGABRT)
		<-time.After(time.Minute) // the signal ends the process before
		return
	}
	listen(t)
	self := exec.Command(os.Args[0], "-test.run=^TestNotifierAborts$")
	var status *exec.ExitError
	if err := self.Run(); !errors.As(err, &status) {
		t.Fatalf("it ended with %v", err)
	}
	if how := status.Sys().(syscall.WaitStatus); !how.Signaled() || how.Signal() != syscall.SIGABRT {
		t.Errorf("it ended with %v, not by the signal", status)
	}
}
