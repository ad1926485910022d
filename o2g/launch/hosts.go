// SPDX-License-Identifier: MIT

package launch

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// hostNames returns the hosts that the job may run on, without their slots.
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
	// A line is HOST, HOST:SLOTS, HOST slots=N or a comment, for either launcher.
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if words := strings.Fields(text); len(words) > 0 {
			list = append(list, bareHost(words[0]))
		}
	}
	return list
}

// bareHost returns HOST of USER@HOST:SLOTS. An IPv6 address contains colons, so
// it stands in brackets if slots follow.
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

// Time limits for looking up one host's name, and the names of all hosts.
const (
	lookTime    = 5 * time.Second
	lookAllTime = 10 * time.Second
)

// homeFor returns this computer's address as the hosts see it, or an empty string.
// Debian's installer maps a computer's own name to a loopback address, which
// other hosts cannot reach. So a loopback address is used only if all hosts are
// this computer.
func homeFor(hosts []string, towards func(host string) string) string {
	own, unreachable := "", false
	for _, host := range hosts {
		home := towards(host)
		if at, err := netip.ParseAddr(home); err != nil {
			unreachable = true
		} else if !at.IsLoopback() {
			return home
		} else {
			own = home
		}
	}
	if unreachable {
		return ""
	}
	return own
}

// findHome sets this computer's address as the hosts see it. Hydra looks names up
// for IPv4 alone, reads HOST:PORT, and says "check for firewalls" of an address with
// more colons; so hosts that are only reached over IPv6 are refused for it.
func (i *Install) findHome(j *Job, source func(network string) func(host string) string) error {
	hosts := j.hostNames()
	if i.Kind.family() != MPICH {
		j.home = homeFor(hosts, source("udp"))
		return nil
	}
	j.home = homeFor(hosts, source("udp4"))
	if j.home != "" {
		return nil
	}
	if home := homeFor(hosts, source("udp6")); home != "" {
		return fmt.Errorf("the launcher of %s reaches hosts over IPv4 only, and these are reached over IPv6 (from %s): name them by IPv4 addresses; the messages go over IPv6 with --iface", i, home)
	}
	return nil
}

// listAddresses moves a job's hosts to a file if some are IPv6 addresses and Open MPI's launcher
// starts the job: it takes what follows the first colon of a --host for slots, and knows such
// addresses in files. The caller removes the file when the launcher has ended.
func (i *Install) listAddresses(j *Job) (remove func(), err error) {
	remove = func() {}
	if i.Kind != OpenMPI || !slices.ContainsFunc(j.Hosts, isIPv6) {
		return remove, nil
	}
	var text strings.Builder
	for _, host := range slotsPerHost(j) {
		name, slots := host, ""
		if at := strings.LastIndex(host, ":"); at >= 0 {
			name, slots = host[:at], host[at+1:]
		}
		fmt.Fprintf(&text, "%s slots=%s\n", strings.NewReplacer("[", "", "]", "").Replace(name), slots)
	}
	file, err := os.CreateTemp("", "skep-hosts-")
	if err != nil {
		return remove, err
	}
	_, err = file.WriteString(text.String())
	if err = errors.Join(err, file.Close()); err != nil {
		return remove, errors.Join(err, os.Remove(file.Name()))
	}
	j.Hosts, j.Hostfile = nil, file.Name()
	return func() { _ = os.Remove(file.Name()) }, nil // the job's end is what counts
}

// isIPv6 reports whether a host is given by an IPv6 address.
func isIPv6(host string) bool { return strings.Contains(bareHost(host), ":") }

// sourceAddress returns a function which gives the source address that the kernel
// would use towards a host over a network (udp, udp4, udp6), or an empty string if there is no route. No packet is
// sent.
func sourceAddress(network string) func(host string) string {
	dialer := net.Dialer{Timeout: lookTime, Deadline: time.Now().Add(lookAllTime)}
	return func(host string) string {
		conn, err := dialer.Dial(network, net.JoinHostPort(host, "9"))
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
