// SPDX-License-Identifier: MIT

// Package wire connects this computer and simulated hosts by a network with delay. A host is
// a set of namespaces. Its device is a tunnel whose other end is in this process, so the
// delay needs no kernel module. Segments are passed on as large as TCP made them, as with
// segmentation offload. Everything is removed when this process ends, for any reason.
package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Device is the name of the network device on every host.
const Device = "skwire"

// A Wire is such a network. It needs root. This computer has a device on it too, with another
// name.
type Wire struct {
	Delay time.Duration // one way
	Net   string        // "10.77.N.": hosts are numbered from 1
	Net6  string        // "fd77:0:0:N::": likewise, a number being hexadecimal; "" without IPv6
	Shell string        // replaces ssh: `Shell [-options] HOST COMMAND...`

	hosts []*host
	ends  map[byte]*end
	look  atomic.Pointer[func(packet []byte)]
}

// Limits: packets in flight to one host, beyond which others are dropped; wires at a time; and
// the number of this computer on its own wire.
const (
	lineMax = 1 << 16
	wireMax = 200
	home    = 254
)

// header is the size of the virtio-net header before a packet, which describes its
// segmentation.
const header = 10

// An end is a device. Packets to it are queued until they are due.
type end struct {
	device *os.File
	line   chan packet
}

type packet struct {
	due  time.Time
	text []byte
}

// New creates a network of hosts. The shell is written to dir. The caller closes the network.
func New(dir string, hosts int, delay time.Duration) (*Wire, error) {
	w := &Wire{Delay: delay, ends: map[byte]*end{}}
	err := w.build(hosts)
	if err == nil {
		err = w.writeShell(dir)
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("hosts on a wire: %w", err)
	}
	for _, e := range w.ends {
		go w.read(e)
		go e.write()
	}
	return w, nil
}

func (w *Wire) build(hosts int) error {
	if err := w.chooseNetwork(); err != nil {
		return err
	}
	for n := 1; n <= hosts; n++ {
		h, err := newHost(fmt.Sprintf("%shost-%d", strings.ReplaceAll(w.Net, ".", "-"), n))
		if err != nil {
			return err
		}
		w.hosts = append(w.hosts, h)
		if err := w.attachHost(n, h); err != nil {
			return err
		}
	}
	return nil
}

// chooseNetwork finds a network that no other wire of this computer uses, by the name of its
// device.
func (w *Wire) chooseNetwork() error {
	for n := 20; ; n++ {
		name := fmt.Sprint(Device, n)
		device, err := createTunnel(name)
		if errors.Is(err, unix.EBUSY) && n < 20+wireMax {
			continue
		}
		if err != nil {
			return err
		}
		w.Net = fmt.Sprintf("10.77.%d.", n)
		if _, err := os.Stat("/proc/net/if_inet6"); err == nil {
			w.Net6 = fmt.Sprintf("fd77:0:0:%x::", n)
		}
		w.ends[home] = newEnd(device)
		return w.setAddress(nil, name, home)
	}
}

func (w *Wire) attachHost(n int, h *host) error {
	device, err := createTunnel(Device)
	if err != nil {
		return err
	}
	w.ends[byte(n)] = newEnd(device)
	if err := runCommand("ip", "link", "set", Device, "netns", h.pidText()); err != nil {
		return err
	}
	return w.setAddress(h.enterCommand(), Device, n)
}

func newEnd(device *os.File) *end { return &end{device, make(chan packet, lineMax)} }

// createTunnel creates a tunnel device with that name.
func createTunnel(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// setAddress sets the addresses of host n's device, on the host that the command `enter`
// enters.
func (w *Wire) setAddress(enter []string, device string, n int) error {
	words := func(more ...string) []string { return append(append([]string(nil), enter...), more...) }
	err := errors.Join(
		runCommand(words("ip", "address", "add", w.Host(n)+"/24", "dev", device)...),
		runCommand(words("ip", "link", "set", device, "mtu", "1500", "txqueuelen", "10000", "up")...))
	if w.Net6 != "" {
		err = errors.Join(err, runCommand(words("ip", "address", "add", w.Host6(n)+"/64", "dev", device, "nodad")...))
	}
	return err
}

func runCommand(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// read reads packets from a device and queues them for their receivers.
func (w *Wire) read(from *end) {
	b := make([]byte, header+65536)
	for {
		n, err := from.device.Read(b)
		if err != nil {
			return // closed
		}
		to := w.ends[receiver(b[header:max(n, header)])]
		if to == nil {
			continue
		}
		if look := w.look.Load(); look != nil {
			(*look)(b[header:n])
		}
		select {
		case to.line <- packet{time.Now().Add(w.Delay), append([]byte(nil), b[:n]...)}:
		default:
		}
	}
}

// receiver returns the number of the host that a packet is for: the last byte of its
// address. No host has 0. Groups of IPv6, which start with ff, have no members here.
func receiver(p []byte) byte {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return p[19]
	case len(p) >= 40 && p[0]>>4 == 6 && p[24] == 0xfd:
		return p[39]
	}
	return 0
}

// Look calls f for each packet from now on, from several goroutines at a time; nil ends that.
// f must not keep the packet.
func (w *Wire) Look(f func(packet []byte)) {
	if f == nil {
		w.look.Store(nil)
		return
	}
	w.look.Store(&f)
}

func (e *end) write() {
	for p := range e.line {
		time.Sleep(time.Until(p.due))
		if _, err := e.device.Write(p.text); errors.Is(err, os.ErrClosed) {
			return
		}
	}
}

// Host returns a host's IPv4 address, Host6 its IPv6 address.
func (w *Wire) Host(n int) string { return fmt.Sprint(w.Net, n) }

func (w *Wire) Host6(n int) string { return fmt.Sprintf("%s%x", w.Net6, n) }

// Enter returns the words to put before a command that runs on a host.
func (w *Wire) Enter(n int) []string { return w.hosts[n-1].enterCommand() }

func (w *Wire) writeShell(dir string) error {
	w.Shell = filepath.Join(dir, w.Net+"shell")
	text := "#!/bin/sh\nset -eu\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\ncase $host in\n"
	for i, h := range w.hosts {
		names := w.Host(i + 1)
		if w.Net6 != "" {
			names += "|" + w.Host6(i+1)
		}
		text += fmt.Sprintf("%s) exec %s sh -c \"$*\" ;;\n", names, strings.Join(h.enterCommand(), " "))
	}
	return os.WriteFile(w.Shell, []byte(text+"esac\necho \"no host $host on this wire\" >&2\nexit 1\n"), 0o755)
}

// Close removes the network. Programs on its hosts run on.
func (w *Wire) Close() {
	for _, e := range w.ends {
		e.device.Close()
	}
	for _, h := range w.hosts {
		h.close()
	}
}
