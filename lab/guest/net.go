// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// netIoctl makes one ioctl about a network interface.
func netIoctl(name string, code uint, fill func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := fill(r); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, code, r); err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	return nil
}

func raiseLink(name string) error {
	return netIoctl(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(unix.IFF_UP)
		return nil
	})
}

// setWire sets the address of the only hardware interface. It disables IPv6, so that
// nothing is sent before a program sends: the other guest may not run yet.
func setWire(c *wire.Config) error {
	if c.Address == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(c.Address)
	if err != nil {
		return err
	}
	devices, _ := filepath.Glob("/sys/class/net/*/device")
	if len(devices) != 1 {
		return fmt.Errorf("%d network devices, want 1", len(devices))
	}
	name := filepath.Base(filepath.Dir(devices[0]))
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
		return err
	}
	mask := netip.AddrFrom4([4]byte{255, 255, 255, 0})
	for _, a := range []struct {
		code uint
		addr netip.Addr
	}{{unix.SIOCSIFADDR, prefix.Addr()}, {unix.SIOCSIFNETMASK, mask}} {
		err := netIoctl(name, a.code, func(r *unix.Ifreq) error { return r.SetInet4Addr(a.addr.AsSlice()) })
		if err != nil {
			return err
		}
	}
	return raiseLink(name)
}

const bridge = "nodes"

// setNodes creates a bridge and network namespaces on it. It uses one batch of ip,
// because each start of a program takes tens of milliseconds in the emulator. Then it sets
// up the nodes in parallel.
func setNodes(c *wire.Config) error {
	if c.Nodes == 0 {
		return nil
	}
	var outer strings.Builder
	fmt.Fprintf(&outer, "link add %s type bridge\naddr add 10.77.0.254/24 dev %s\nlink set %s up\n", bridge, bridge, bridge)
	for n := 1; n <= c.Nodes; n++ {
		fmt.Fprintf(&outer, "netns add node%d\nlink add to%d type veth peer name eth0 netns node%d\nlink set to%d master %s up\n",
			n, n, n, n, bridge)
	}
	if err := runTool(outer.String(), "ip", "-batch", "-"); err != nil {
		return err
	}
	failed := make(chan error, c.Nodes)
	free := make(chan bool, runtime.NumCPU())
	for n := 1; n <= c.Nodes; n++ {
		free <- true
		go func() {
			failed <- setNode(c, n)
			<-free
		}()
	}
	var err error
	for range c.Nodes {
		err = errors.Join(err, <-failed)
	}
	return err
}

func setNode(c *wire.Config, n int) error {
	inner := fmt.Sprintf("addr add 10.77.0.%d/24 dev eth0\nlink set lo up\nlink set eth0 up\n", n)
	name := fmt.Sprintf("node%d", n)
	if err := runTool(inner, "ip", "-n", name, "-batch", "-"); err != nil {
		return err
	}
	return setDelay(c, name)
}

// setDelay sets a node's delay and loss by netem, with a queue long enough for the packets
// in flight on a link with a large bandwidth-delay product.
func setDelay(c *wire.Config, node string) error {
	if c.Delay == 0 && c.Loss == 0 {
		return nil
	}
	args := []string{"-n", node, "qdisc", "add", "dev", "eth0", "root", "netem", "limit", "100000"}
	if c.Delay > 0 {
		args = append(args, "delay", fmt.Sprintf("%dus", c.Delay.Microseconds()))
	}
	if c.Loss > 0 {
		args = append(args, "loss", fmt.Sprintf("%g%%", c.Loss*100))
	}
	return runTool("", "tc", args...)
}
