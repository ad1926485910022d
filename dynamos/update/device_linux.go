// SPDX-License-Identifier: MIT

package update

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// A Device is an open /dev/dynamos.
type Device struct {
	fd     int
	former atomic.Bool // the loaded module is of the former revision
}

// formerRevision is that of a module that was loaded before skep was upgraded, and stays
// until the next boot. Its structs have the same layout, and it knows fewer flags.
const formerRevision = uapi.DynamosRevision - 1

var errFormer = refusef("the loaded module dynamos is older than this skep and cannot do that: it is replaced at the next boot")

// formerFlags returns the flags of a call that the former revision does not know.
func formerFlags(number uintptr, arg unsafe.Pointer) uint32 {
	switch number {
	case uapi.DynamosIocApply:
		return (*uapi.DynamosApply)(arg).Flags &^ uapi.DynamosSupersede
	case uapi.DynamosIocPolicy:
		return (*uapi.DynamosChange)(arg).Flags
	}
	return 0
}

// ioctl makes a system call; only tests replace it.
var ioctl = func(fd int, number uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), number, uintptr(arg))
	return e
}

// Open opens the device of the running kernel.
func Open() (*Device, error) {
	fd, err := unix.Open(uapi.DynamosDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, openError(err)
	}
	return &Device{fd: fd}, nil
}

func openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return refusef("the module dynamos is not loaded: 'skep doctor' prints the command that loads it, for root")
	case errors.Is(err, fs.ErrPermission):
		return refusef("%s: updates of the kernel are for root only (CAP_SYS_MODULE, not in a container)", uapi.DynamosDevice)
	}
	return &os.PathError{Op: "open", Path: uapi.DynamosDevice, Err: err}
}

// Close closes the device; updates stay as they are.
func (d *Device) Close() error { return unix.Close(d.fd) }

// call makes one call, in the revision of the loaded module. `arg` begins with the revision.
// `why` is the field of the reply with the error message.
func (d *Device) call(number uintptr, arg unsafe.Pointer, why []byte) error {
	revision := (*uint32)(arg)
	*revision = uapi.DynamosRevision
	e := unix.EPROTO
	if !d.former.Load() {
		e = ioctl(d.fd, number, arg)
	}
	if e == unix.EPROTO {
		if formerFlags(number, arg) != 0 {
			return errFormer
		}
		*revision = formerRevision
		e = ioctl(d.fd, number, arg)
		d.former.Store(e != unix.EPROTO)
	}
	if e == 0 {
		return nil
	}
	return callError(number, e, uapi.Text(why))
}

// callError is the error of a call; text is the module's own message, if it has one.
func callError(number uintptr, e unix.Errno, text string) error {
	switch {
	case e == unix.EALREADY && number == uapi.DynamosIocApply:
		return refusef("%s: 'skep update policy' changes which tasks use it, 'skep update revert' reverts it", text)
	case text != "":
		return &RefusedError{Why: text}
	case e == unix.EPROTO, e == unix.ENOTTY:
		return refusef("the module dynamos is of another version than this skep: load that of this build")
	case e == unix.EPERM:
		return refusef("updates of the kernel are for root only (CAP_SYS_MODULE, not in a container)")
	}
	return e
}

// TakesRolls refuses a module that could carry a roll to its last step only.
func (d *Device) TakesRolls() error {
	if _, err := d.Info(0); err != nil && !errors.Is(err, ErrNoMore) {
		return err
	}
	if d.former.Load() {
		return errFormer
	}
	return nil
}

// Apply puts a loaded update on trial.
func (d *Device) Apply(a *uapi.DynamosApply) error {
	err := withPrograms(&a.Policy, func() error { return d.call(uapi.DynamosIocApply, unsafe.Pointer(a), a.Why[:]) })
	if errors.Is(err, unix.EINVAL) && a.Flags&uapi.DynamosObjectsLeft != 0 {
		a.Flags &^= uapi.DynamosObjectsLeft // a module before there was this flag asks for none
		return d.Apply(a)
	}
	if errors.Is(err, unix.EINVAL) && a.Flags&uapi.DynamosObjectsExist != 0 {
		return errFormer // a module before there was this flag gives no reason
	}
	return knowsPolicy(&a.Policy, err)
}

// knowsPolicy is the error of a module from before there were programs, or shares of users
// and cgroups.
func knowsPolicy(p *uapi.DynamosPolicy, err error) error {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	if perOf(p) && strings.HasSuffix(refused.Why, "the reserved field is not zero") ||
		termsOf(p)&uapi.DynamosProgram != 0 && strings.HasSuffix(refused.Why, "its term is unknown to this revision") {
		return errFormer
	}
	return err
}

// termsOf returns the terms that any rule has.
func termsOf(p *uapi.DynamosPolicy) (terms uint32) {
	for _, r := range p.Used() {
		terms |= r.Terms
	}
	return terms
}

// perOf reports whether a policy has a share of users or cgroups.
func perOf(p *uapi.DynamosPolicy) bool {
	return slices.ContainsFunc(p.Used(), func(r uapi.DynamosRule) bool { return r.Per != uapi.DynamosPerProcess })
}

// SetPolicy replaces an update's policy.
func (d *Device) SetPolicy(name string, p uapi.DynamosPolicy) error {
	return d.change(name, uapi.DynamosChange{Policy: p})
}

// CommitFor keeps an update and replaces its policy in one step: no call takes neither it
// nor what it supersedes. Of a committed update it replaces the policy.
func (d *Device) CommitFor(name string, p uapi.DynamosPolicy) error {
	return d.change(name, uapi.DynamosChange{Flags: uapi.DynamosCommits, Policy: p})
}

func (d *Device) change(name string, c uapi.DynamosChange) error {
	if err := putName(&c.Name, name); err != nil {
		return err
	}
	return knowsPolicy(&c.Policy, withPrograms(&c.Policy, func() error { return d.call(uapi.DynamosIocPolicy, unsafe.Pointer(&c), c.Why[:]) }))
}

// Commit keeps an update that is on trial.
func (d *Device) Commit(name string) error { return d.callByName(uapi.DynamosIocCommit, name, 0) }

// Revert drains an update: new calls use the older version, and calls inside are waited for.
// exist: also if objects may exist that lack what the older version relies on.
func (d *Device) Revert(name string, exist bool) error {
	flags := uint32(0)
	if exist {
		flags = uapi.DynamosObjectsExist
	}
	err := d.callByName(uapi.DynamosIocRevert, name, flags)
	if exist && errors.Is(err, unix.EINVAL) {
		err = d.callByName(uapi.DynamosIocRevert, name, 0) // a module that does not ask
	}
	return err
}

func (d *Device) callByName(number uintptr, name string, flags uint32) error {
	n := uapi.DynamosNamed{Flags: flags}
	if err := putName(&n.Name, name); err != nil {
		return err
	}
	return d.call(number, unsafe.Pointer(&n), n.Why[:])
}

func putName(to *[uapi.DynamosName]byte, name string) error {
	if name == "" || len(name) >= len(to) {
		return refusef("%q is not the name of an update: it has 1 to %d bytes", name, len(to)-1)
	}
	copy(to[:], name)
	return nil
}

// Info returns the update with that index, or ErrNoMore if there is none.
func (d *Device) Info(index uint32) (i uapi.DynamosInfo, err error) {
	i.Index = index
	err = d.call(uapi.DynamosIocInfo, unsafe.Pointer(&i), nil)
	if errors.Is(err, unix.ENOENT) {
		err = ErrNoMore
	}
	return i, err
}

// Count returns the counters of one version of one function of an update.
func (d *Device) Count(name string, function, version uint32) (c uapi.DynamosCount, err error) {
	c.Function, c.Version = function, version
	if err := putName(&c.Name, name); err != nil {
		return c, err
	}
	err = d.count(&c)
	return c, err
}

// CountProbe returns the counters of a probe that was set through this Device.
func (d *Device) CountProbe(n uint32) (c uapi.DynamosCount, err error) {
	c.Function = n
	err = d.count(&c)
	return c, err
}

func (d *Device) count(c *uapi.DynamosCount) error {
	err := d.call(uapi.DynamosIocCount, unsafe.Pointer(c), nil)
	if errors.Is(err, unix.ENOENT) {
		err = ErrNoMore
	}
	return err
}

const eventSize = int(unsafe.Sizeof(uapi.DynamosEvent{}))

// eventsMax is the most events that one call reads, because they may come faster than
// they are read.
const eventsMax = 1 << 16

// Events returns the events that were not yet read through this Device.
func (d *Device) Events() (list []uapi.DynamosEvent, err error) {
	buf := make([]byte, 64*eventSize)
	for len(list) < eventsMax {
		n, err := unix.Read(d.fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN, err == nil && n == 0:
			return list, nil
		case err != nil:
			return list, fmt.Errorf("%s: %w", uapi.DynamosDevice, err)
		case n%eventSize != 0:
			return list, fmt.Errorf("%s gave %d bytes, no whole records", uapi.DynamosDevice, n)
		}
		for at := 0; at < n; at += eventSize {
			var e uapi.DynamosEvent
			if _, err := binary.Decode(buf[at:at+eventSize], binary.LittleEndian, &e); err != nil {
				return list, err
			}
			list = append(list, e)
		}
	}
	return list, nil
}
