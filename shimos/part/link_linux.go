// SPDX-License-Identifier: MIT

package part

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

const linkBits = 30 // of the network of a link: two addresses, one for each kernel

// A Link is a network link between this Linux and a kernel on a partition: an interface
// (TAP) of the network namespace of the caller. It goes away with the process.
type Link struct {
	Name        string
	Here, There netip.Prefix // the addresses of this Linux and of the kernel
	card        [6]byte      // the kernel's hardware address
	fd          int
	dropped     uint64 // frames of the kernel
	deleted     bool
}

// LinkAddresses returns the addresses of both ends of a link to partition id: this Linux has
// the one that is wanted, and the other kernel the other one of its network. Without a
// wish they are of 169.254.64.0/18, which no router passes on.
func LinkAddresses(id uint32, want netip.Prefix) (here, there netip.Prefix, err error) {
	if !want.IsValid() {
		n := id % (1 << (linkBits - 18))
		want = netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 64 + byte(n>>6), byte(n<<2) + 1}), linkBits)
	}
	a := want.Addr()
	last := byte(0)
	if a.Is4() && a.As4()[0] != 0 && a.As4()[0] < 240 {
		last = a.As4()[3] & 3
	}
	if want.Bits() != linkBits || last != 1 && last != 2 || !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() {
		return here, there, fmt.Errorf("%s is not one of the two addresses of an IPv4 network of four, as 10.9.8.1/30 is", want)
	}
	other := a.Next()
	if last == 2 {
		other = a.Prev()
	}
	return want, netip.PrefixFrom(other, linkBits), nil
}

// NewLink makes the link to the kernel on partition id, with an address that is wanted.
func NewLink(id uint32, want netip.Prefix) (*Link, error) {
	l := &Link{Name: fmt.Sprintf("skep%d", id), fd: -1}
	var err error
	if l.Here, l.There, err = LinkAddresses(id, want); err != nil {
		return nil, &RefusedError{err.Error()}
	}
	if err := l.checkFree(); err != nil {
		return nil, err
	}
	rand.Read(l.card[:])         // it never fails
	l.card[0] = l.card[0]&^1 | 2 // of one card, and of no manufacturer
	if l.fd, err = openTap(l.Name); err != nil {
		return nil, err
	}
	if err := l.raise(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// checkFree refuses a network that this Linux has an address in.
func (l *Link) checkFree() error {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && l.Here.Masked().Contains(p.Addr()) {
			return &RefusedError{fmt.Sprintf("the link would have the network %s, and this Linux has %s in it: choose another one with --address", l.Here.Masked(), p.Addr())}
		}
	}
	return nil
}

// openTap makes an interface that is there as long as it is open.
func openTap(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV):
		return -1, &RefusedError{"the link needs the module tun of this Linux: 'modprobe tun' loads it"}
	case err != nil:
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if errors.Is(err, unix.EBUSY) {
		err = &RefusedError{fmt.Sprintf("there is an interface %s already: 'ip link delete %s' removes it", name, name)}
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("the interface %s: %w", name, err), unix.Close(fd))
	}
	return fd, nil
}

// raise gives the interface its address and brings it up.
func (l *Link) raise() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	mask := net.CIDRMask(linkBits, 32)
	for _, c := range []struct {
		number uint
		fill   func(*unix.Ifreq) error
	}{
		{unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(l.Here.Addr().AsSlice()) }},
		{unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }},
		{unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }},
	} {
		r, err := unix.NewIfreq(l.Name)
		if err == nil {
			err = c.fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, c.number, r)
		}
		if err != nil {
			return fmt.Errorf("the interface %s: %w", l.Name, err)
		}
	}
	return nil
}

// Close removes the interface.
func (l *Link) Close() error { return unix.Close(l.fd) }

// Losses says what was lost, after the kernel's end; empty: nothing.
func (l *Link) Losses() string {
	switch {
	case l.deleted:
		return fmt.Sprintf("the link %s was deleted while the kernel ran", l.Name)
	case l.dropped > 0:
		return fmt.Sprintf("the link %s dropped %d frames of the kernel", l.Name, l.dropped)
	}
	return ""
}
