// SPDX-License-Identifier: MIT

package main

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

// A wire joins this computer and network namespaces of it, each with a tunnel
// device whose other end is here: delay needs no module of the kernel.
type wire struct {
	net   string // "10.77.N."
	name  string // of the namespaces, less their numbers
	ends  map[byte]*end
	delay time.Duration
}

// An end is a device; packets for it wait in line until they are due.
type end struct {
	device *os.File
	line   chan packet
}

type packet struct {
	due  time.Time
	text []byte
}

// homeNumber is this computer on the wire, hosts count from 1.
const homeNumber = 254

// newWire makes hosts 1 to n. Whoever gets one closes it.
func newWire(n int, delay time.Duration) (*wire, error) {
	w := &wire{ends: map[byte]*end{}, delay: delay}
	var err error
	for try := range 200 { // another run may have the first ones
		w.net = fmt.Sprintf("10.77.%d.", try+20)
		w.name = fmt.Sprintf("skep-o2g-%d-", try+20)
		if err = ip("netns", "add", w.name+"1"); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for i := 2; i <= n && err == nil; i++ {
		err = ip("netns", "add", fmt.Sprint(w.name, i))
	}
	for i := 1; i <= n && err == nil; i++ {
		err = w.attach(byte(i), fmt.Sprint(w.name, i))
	}
	if err == nil {
		err = w.attach(homeNumber, "")
	}
	if err != nil {
		w.close()
		return nil, err
	}
	for _, e := range w.ends {
		go w.read(e)
		go e.write()
	}
	return w, nil
}

func ip(words ...string) error {
	out, err := exec.Command("ip", words...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// attach gives a namespace its device, this computer's own for an empty name.
func (w *wire) attach(number byte, space string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("o2g%s%d", strings.Split(w.net, ".")[2], number)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	w.ends[number] = &end{os.NewFile(uintptr(fd), name), make(chan packet, 1<<16)}
	var at []string
	if space != "" {
		at = []string{"-n", space}
		if err := errors.Join(ip("link", "set", name, "netns", space), ip("-n", space, "link", "set", "lo", "up")); err != nil {
			return err
		}
	}
	address := fmt.Sprintf("%s%d/24", w.net, number)
	return errors.Join(ip(append(at, "address", "add", address, "dev", name)...),
		ip(append(at, "link", "set", name, "txqueuelen", "10000", "up")...))
}

// read takes what leaves a device and puts it into its receiver's line.
func (w *wire) read(from *end) {
	b := make([]byte, 65536)
	for {
		n, err := from.device.Read(b)
		if err != nil {
			return // closed
		}
		if n < 20 || b[0]>>4 != 4 {
			continue // no IPv4
		}
		to := w.ends[b[19]]
		if to == nil {
			continue
		}
		select {
		case to.line <- packet{time.Now().Add(w.delay), append([]byte(nil), b[:n]...)}:
		default: // too many: lost, as on any wire
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

func (w *wire) close() {
	for _, e := range w.ends {
		e.device.Close()
	}
	spaces, _ := filepath.Glob("/run/netns/" + w.name + "*")
	for _, s := range spaces {
		if err := ip("netns", "delete", filepath.Base(s)); err != nil {
			fmt.Println("#", err)
		}
	}
}

// host is a host's address.
func (w *wire) host(n int) string { return fmt.Sprint(w.net, n) }

// shell writes what stands in for ssh: `shell [-options] HOST COMMAND...`. A
// host of its own has a name of its own.
func (w *wire) shell(dir string) (string, error) {
	path := filepath.Join(dir, w.name+"shell")
	text := `#!/bin/sh
set -eu
while [ "${1#-}" != "$1" ]; do shift; done
number=${1##*.}
shift
exec ip netns exec "` + w.name + `$number" unshare --uts \
	sh -c "hostname o2g-host-$number; $*"
`
	return path, os.WriteFile(path, []byte(text), 0o755)
}
