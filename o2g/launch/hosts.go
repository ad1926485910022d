// SPDX-License-Identifier: MIT

package launch

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// hostNames are those that the job may run on, without their slots.
func (j *Job) hostNames() []string {
	var list []string
	for _, host := range j.Hosts {
		list = append(list, bareHost(host))
	}
	if len(list) > 0 {
		return list
	}
	file, err := os.Open(j.Hostfile)
	if err != nil {
		return nil
	}
	defer file.Close()
	// HOST, HOST:SLOTS or HOST slots=N, and comments, for either launcher.
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			list = append(list, bareHost(words[0]))
		}
	}
	return list
}

// bareHost is a host of USER@HOST:SLOTS; an address of IPv6 has colons of its own,
// and brackets around it where slots follow.
func bareHost(host string) string {
	if _, name, found := strings.Cut(host, "@"); found {
		host = name
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	host, _, _ = strings.Cut(host, ":")
	return host
}

// How long hosts' names are looked up, one and all.
const (
	lookTime    = 5 * time.Second
	lookAllTime = 10 * time.Second
)

// homeFor is this computer's address as the hosts see it, empty when unknown.
// A loopback address, which Debian's installer gives a computer's own name,
// cannot be reached from other hosts: it counts only if all hosts are this one.
func homeFor(hosts []string, towards func(host string) string) string {
	own, strange := "", false
	for _, host := range hosts {
		home := towards(host)
		if at, err := netip.ParseAddr(home); err != nil {
			strange = true
		} else if !at.IsLoopback() {
			return home
		} else {
			own = home
		}
	}
	if strange {
		return ""
	}
	return own
}

// sourceAddress gives the address that the kernel would send from to a host. No
// packet is sent. Empty when there is no way.
func sourceAddress() func(host string) string {
	dialer := net.Dialer{Timeout: lookTime, Deadline: time.Now().Add(lookAllTime)}
	return func(host string) string {
		conn, err := dialer.Dial("udp", net.JoinHostPort(host, "9"))
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
}
