// SPDX-License-Identifier: MIT

// Package wire joins this computer and hosts of its own with a network on which
// packets take their time. A host is a set of namespaces, its device a tunnel
// whose other end is here: delay needs no module of the kernel. Segments travel
// as large as TCP made them, as through a good card. All of it vanishes with
// this process, however that ends.
package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Device is the name of the network device on every host.
const Device = "skwire"

// A Wire needs root. This computer has a device on it too, of another name.
type Wire struct {
	Delay time.Duration // each way
	Net   string        // "10.77.N.": the hosts count from 1
	Shell string        // stands in for ssh: `Shell [-options] HOST COMMAND...`

	hosts []*host
	ends  map[byte]*end
}

// Limits: what is on its way to one host, what comes on top is lost, as on any
// wire; wires at a time; and the place of this computer on its own.
const (
	lineMax = 1 << 16
	wireMax = 200
	home    = 254
)

// A header says how a packet is to be segmented; the packet follows.
const header = 10

// An end is a device; packets for it wait in line until they are due.
type end struct {
	device *os.File
	line   chan packet
}

type packet struct {
	due  time.Time
	text []byte
}

// New joins that many hosts; dir is where the shell is put. The receiver closes it.
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

// chooseNetwork finds a network that no other wire of this computer uses: its device name shows that.
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
		w.ends[home] = newEnd(device)
		return setAddress(nil, name, w.Host(home))
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
	return setAddress(h.enterCommand(), Device, w.Host(n))
}

func newEnd(device *os.File) *end { return &end{device, make(chan packet, lineMax)} }

// createTunnel makes a device with that name.
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
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// setAddress returns a device its address, on the host that `enter` leads to.
func setAddress(enter []string, device, address string) error {
	words := func(more ...string) []string { return append(append([]string(nil), enter...), more...) }
	return errors.Join(
		runCommand(words("ip", "address", "add", address+"/24", "dev", device)...),
		runCommand(words("ip", "link", "set", device, "mtu", "1500", "txqueuelen", "10000", "up")...))
}

func runCommand(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// read takes what leaves a device and puts it into its receiver's line.
func (w *Wire) read(from *end) {
	b := make([]byte, header+65536)
	for {
		n, err := from.device.Read(b)
		if err != nil {
			return // closed
		}
		if n < header+20 || b[header]>>4 != 4 {
			continue // no IPv4
		}
		to := w.ends[b[header+19]]
		if to == nil {
			continue
		}
		select {
		case to.line <- packet{time.Now().Add(w.Delay), append([]byte(nil), b[:n]...)}:
		default:
		}
	}
}

func (e *end) write() {
	for p := range e.line {
		time.Sleep(time.Until(p.due))
		if _, err := e.device.Write(p.text); errors.Is(err, os.ErrClosed) {
			return
		}
	}
}

// Host is a host's address.
func (w *Wire) Host(n int) string { return fmt.Sprint(w.Net, n) }

// Enter are the words in front of a command that runs on a host.
func (w *Wire) Enter(n int) []string { return w.hosts[n-1].enterCommand() }

func (w *Wire) writeShell(dir string) error {
	w.Shell = filepath.Join(dir, w.Net+"shell")
	text := "#!/bin/sh\nset -eu\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\ncase $host in\n"
	for i, h := range w.hosts {
		text += fmt.Sprintf("%s) exec %s sh -c \"$*\" ;;\n", w.Host(i+1), strings.Join(h.enterCommand(), " "))
	}
	return os.WriteFile(w.Shell, []byte(text+"esac\necho \"no host $host on this wire\" >&2\nexit 1\n"), 0o755)
}

// Close takes the network away; programs on its hosts stay until they end.
func (w *Wire) Close() {
	for _, e := range w.ends {
		e.device.Close()
	}
	for _, h := range w.hosts {
		h.close()
	}
}
