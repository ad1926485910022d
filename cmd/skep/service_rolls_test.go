// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The socket of root's host is for root and the account of the services, whoever else can
// open it.
func TestRollSocketPermits(t *testing.T) {
	for uid, want := range map[uint32]bool{0: true, 65534: false, 1000: false} {
		if err := permitUser(uid); (err == nil) != want {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	dir, err := os.MkdirTemp("", "rolls")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	err = permitPeer(peer)
	if os.Geteuid() == 0 && err != nil || os.Geteuid() != 0 && (err == nil || !strings.Contains(err.Error(), "neither root nor")) {
		t.Errorf("this user: %v", err)
	}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if err := permitPeer(one); err == nil {
		t.Error("a connection without a user was permitted")
	}
}
