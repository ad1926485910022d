// SPDX-License-Identifier: MIT

//go:build linux

package peercred

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Both ends see this process and its user; a closed socket is an error.
func TestRead(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []*net.UnixConn{c, s} {
		if p, err := Read(end); err != nil || int(p.Pid) != os.Getpid() || int(p.Uid) != os.Geteuid() || int(p.Gid) != os.Getegid() {
			t.Errorf("%+v, %v", p, err)
		}
	}
	s.Close()
	if p, err := Read(s); err == nil {
		t.Errorf("a closed socket: %+v", p)
	}
}
