// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/yamux"

	"skep/grid/proto"
	"skep/lab/wire"
)

// servePort serves on one end of a channel. It returns the host's end, and what serve
// returns.
func servePort(t *testing.T, hello wire.Hello) (*yamux.Session, <-chan error) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "host")
	defer theirs.Close()
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	host, err := yamux.Client(conn, wire.Yamux(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	ended := make(chan error, 1)
	go func() { ended <- serve(os.NewFile(uintptr(fds[0]), "port"), hello) }()
	return host, ended
}

// readHello reads the guest's first message.
func readHello(t *testing.T, host *yamux.Session) (net.Conn, wire.Hello) {
	t.Helper()
	first, err := host.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Hello
	if err := wire.Read(first, &h); err != nil {
		t.Fatal(err)
	}
	return first, h
}

// What is no request is answered by a failure, and the next one is served.
func TestRequestsOfTheHost(t *testing.T) {
	host, ended := servePort(t, wire.Hello{Release: "6.1", CPUs: 3})
	if _, h := readHello(t, host); h.Release != "6.1" || h.CPUs != 3 {
		t.Errorf("hello %+v", h)
	}
	for name, c := range map[string]struct {
		request any
		why     string
	}{
		"no operation":       {map[string]any{"Op": "dance"}, `a request for "dance"`},
		"an unknown field":   {map[string]any{"Op": "run", "Colour": 1}, "unknown field"},
		"no program":         {wire.Request{Op: wire.Run}, "no program is named"},
		"no such program":    {wire.Request{Op: wire.Run, Program: wire.Program{Args: []string{"skep-none"}}}, "skep-none: not found in PATH"},
		"no such folder":     {wire.Request{Op: wire.Run, Program: wire.Program{Args: []string{"/bin/true"}, Dir: "/none"}}, ""},
		"results without it": {wire.Request{Op: wire.Run, Results: true, Terminal: &wire.Size{}, Program: wire.Program{Args: []string{"x"}}}, "no separate results"},
	} {
		stream, err := host.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Write(stream, c.request); err != nil {
			t.Fatal(err)
		}
		kind, p, err := proto.ReadExec(stream, make([]byte, proto.ExecFrameMax))
		if err != nil || kind != proto.ExecFailed || !strings.Contains(string(p), c.why) {
			t.Errorf("%s: frame %d %q, %v, want %q", name, kind, p, err, c.why)
		}
		if _, _, err := proto.ReadExec(stream, make([]byte, proto.ExecFrameMax)); err == nil {
			t.Errorf("%s: something follows the failure", name)
		}
		stream.Close()
	}
	host.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the host has ended: ") {
		t.Errorf("the channel ends: %v", err)
	}
}

// A guest that could not start says so, and ends when the host has read it.
func TestHelloOfAFailure(t *testing.T) {
	host, ended := servePort(t, wire.Hello{Failure: "mount the root: none"})
	first, h := readHello(t, host)
	if h.Failure != "mount the root: none" {
		t.Errorf("hello %+v", h)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended before it was read: %v", err)
	default:
	}
	first.Close()
	if err := <-ended; err == nil || err.Error() != "mount the root: none" {
		t.Errorf("%v", err)
	}
	host, ended = servePort(t, wire.Hello{})
	host.Close()
	if err := <-ended; err == nil {
		t.Error("a host that reads no hello is no error")
	}
}

// Process 1 and kernel threads are nobody whom a poweroff waits for; this test is.
func TestProcessesThatAreLeft(t *testing.T) {
	if !anyLeft() {
		t.Error("nobody is left, though this test runs")
	}
}
