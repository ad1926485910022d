// SPDX-License-Identifier: MIT

package mpi

import (
	"bufio"
	"net"
	"os"
	"strings"
	"time"
)

// firstHost is the host that is asked for first, without its slots; empty when
// there is none.
func (j *Job) firstHost() string {
	if len(j.Hosts) > 0 {
		return bare(j.Hosts[0])
	}
	file, err := os.Open(j.Hostfile)
	if err != nil {
		return ""
	}
	defer file.Close()
	// HOST, HOST:SLOTS or HOST slots=N, and comments, for either launcher.
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			return bare(words[0])
		}
	}
	return ""
}

func bare(host string) string {
	host, _, _ = strings.Cut(host, ":")
	if _, name, found := strings.Cut(host, "@"); found {
		return name // USER@HOST
	}
	return host
}

// homeTowards is this computer's address as that host sees it: the one that
// the kernel would send from. No packet is sent. Empty when there is no way.
func homeTowards(host string) string {
	if host == "" {
		return ""
	}
	conn, err := net.DialTimeout("udp", net.JoinHostPort(host, "9"), 5*time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	home, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil || net.ParseIP(home) == nil {
		return ""
	}
	return home
}
