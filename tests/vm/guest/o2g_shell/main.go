// SPDX-License-Identifier: MIT

// Command o2g_shell starts the ranks of an MPI job in another guest, as ssh
// would between hosts that have it.
//
//	o2g_shell serve                          runs what comes, as long as it wants
//	o2g_shell [-options] HOST COMMAND...     has COMMAND run at HOST, or here
//
// Whoever can reach the port is believed: it is for guests that nobody else
// reaches.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const port = "7022"

func main() {
	args := os.Args[1:]
	if len(args) == 1 && args[0] == "serve" {
		fmt.Fprintln(os.Stderr, "o2g_shell:", serveShell())
		os.Exit(1)
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: o2g_shell [-options] HOST COMMAND...")
		os.Exit(2)
	}
	if err := runRemote(args[0], strings.Join(args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, "o2g_shell:", err)
		os.Exit(1)
	}
}

func runRemote(host, command string) error {
	if own, err := os.Hostname(); err == nil && own == host {
		return syscall.Exec("/bin/sh", []string{"sh", "-c", command}, os.Environ())
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func serveShell() error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			command, err := io.ReadAll(io.LimitReader(conn, 1<<16))
			if err != nil {
				return
			}
			cmd := exec.Command("/bin/sh", "-c", string(command))
			cmd.Stdout, cmd.Stderr = conn, conn
			if err := cmd.Run(); err != nil {
				fmt.Fprintln(conn, "o2g_shell:", err)
			}
		}()
	}
}
