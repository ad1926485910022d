// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A delayed joins two hosts of our own: namespaces with a tunnel device each,
// between whose ends here packets wait. That needs no module of the kernel.
// Segments travel as large as TCP made them (TSO), as through a good card. All
// of it vanishes with this process, however that ends: the hosts' first
// processes read from pipes of ours, the devices are our descriptors.
type delayed struct {
	way     time.Duration // each way
	host    [2]*space
	shell   string
	devices []*os.File
}

// A space is one host: its first process, and where it can be reached.
type space struct {
	first   *exec.Cmd
	pipe    io.Closer
	address string
}

// wireDevice is the network device of both hosts.
const wireDevice = "skbench"

// lineMost bounds what is on its way; what comes on top is lost.
const lineMost = 1 << 15

// A parcel is a packet with the header that says how it is segmented.
type parcel struct {
	due  time.Time
	text []byte
}

func newDelayed(dir string, way time.Duration) (*delayed, error) {
	d := &delayed{way: way}
	for i := range d.host {
		s, err := newSpace(i)
		if err == nil {
			d.host[i] = s
			err = d.attach(s)
		}
		if err != nil {
			d.close()
			return nil, fmt.Errorf("two hosts with a delay between them need root: %w", err)
		}
	}
	go d.carry(d.devices[0], d.devices[1])
	go d.carry(d.devices[1], d.devices[0])
	if err := d.writeShell(dir); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// newSpace starts a process that holds a host's namespaces until we end. Its
// own /sys shows its own devices, which UCX looks for there.
func newSpace(i int) (*space, error) {
	name := fmt.Sprintf("skep-bench-%d", i+1)
	s := &space{address: fmt.Sprintf("10.79.0.%d", i+1)}
	s.first = exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t sysfs sysfs /sys && "+
		"hostname "+name+" && ip link set lo up && echo ready && exec cat >/dev/null")
	s.first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS}
	s.first.Stderr = os.Stderr
	in, err := s.first.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.pipe = in
	out, err := s.first.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.first.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		s.close()
		return nil, errors.New("a host's namespaces can't be made")
	}
	return s, nil
}

func (s *space) close() {
	s.pipe.Close() // cat ends
	_ = s.first.Wait()
}

// enter are the words in front of a command that runs on the host.
func (s *space) enter() []string {
	return []string{"nsenter", "-t", fmt.Sprint(s.first.Process.Pid), "-n", "-u", "-m"}
}

// attach gives a host its device.
func (d *delayed) attach(s *space) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(wireDevice)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("a device %s: %w", wireDevice, err), unix.Close(fd))
	}
	d.devices = append(d.devices, os.NewFile(uintptr(fd), wireDevice))
	pid := fmt.Sprint(s.first.Process.Pid)
	for _, words := range [][]string{
		{"ip", "link", "set", wireDevice, "netns", pid},
		append(s.enter(), "ip", "address", "add", s.address+"/24", "dev", wireDevice),
		append(s.enter(), "ip", "link", "set", wireDevice, "mtu", "1500", "txqueuelen", "10000", "up"),
	} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
		}
	}
	return nil
}

// carry takes what one host sends to the other, later.
func (d *delayed) carry(from, to *os.File) {
	line := make(chan parcel, lineMost)
	spare := make(chan []byte, 1024)
	go func() {
		for p := range line {
			if wait := time.Until(p.due); wait > 0 {
				time.Sleep(wait)
			}
			if _, err := to.Write(p.text); errors.Is(err, os.ErrClosed) {
				return
			}
			select {
			case spare <- p.text[:cap(p.text)]:
			default:
			}
		}
	}()
	defer close(line)
	for {
		var b []byte
		select {
		case b = <-spare:
		default:
			b = make([]byte, 10+65536)
		}
		n, err := from.Read(b)
		if err != nil {
			return // closed
		}
		select {
		case line <- parcel{time.Now().Add(d.way), b[:n]}:
		default: // lost, as on any wire
		}
	}
}

// writeShell makes what stands in for ssh: `shell [-options] HOST COMMAND...`.
func (d *delayed) writeShell(dir string) error {
	d.shell = filepath.Join(dir, "shell")
	text := "#!/bin/sh\nset -eu\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\ncase $host in\n"
	for _, s := range d.host {
		text += fmt.Sprintf("%s) exec %s sh -c \"$*\" ;;\n", s.address, strings.Join(s.enter(), " "))
	}
	return os.WriteFile(d.shell, []byte(text+"esac\nexit 1\n"), 0o755)
}

func (d *delayed) close() {
	for _, f := range d.devices {
		f.Close()
	}
	for _, s := range d.host {
		if s != nil {
			s.close()
		}
	}
}
