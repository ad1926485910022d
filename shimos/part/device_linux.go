// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// module makes one call of the device; tests replace it.
var module = func(number uintptr, arg unsafe.Pointer) error {
	return ioctl(uapi.ShimosDevice, number, arg)
}

// openModule opens the module's device, which is at path.
func openModule(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &RefusedError{"the module shimos is not loaded: 'skep doctor' prints the command that loads it, for root"}
	}
	return f, err
}

func ioctl(path string, number uintptr, arg unsafe.Pointer) error {
	f, err := openModule(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return ioctlFile(f, number, arg)
}

func ioctlFile(f *os.File, number uintptr, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), number, uintptr(arg)); e != 0 {
		return e
	}
	return nil
}

// call makes one call of the module. `why` is the field of the reply with the error message.
func call(number uintptr, arg unsafe.Pointer, why []byte) error {
	return explainError(module(number, arg), why)
}

// explainError puts the module's own message, if there is one, in the place of an error's number.
func explainError(err error, why []byte) error {
	switch text := uapi.Text(why); {
	case err == nil:
		return nil
	case text != "":
		return &RefusedError{text}
	case errors.Is(err, unix.ENOTTY):
		return &RefusedError{"the module shimos is of another version: load that of this build"}
	}
	return err
}

func (r *Request) create() (c uapi.ShimosCreate, err error) {
	c = uapi.ShimosCreate{Revision: uapi.ShimosRevision, CPUs: r.CPUs, Bytes: r.Memory}
	if len(r.Name) >= len(c.Name) {
		return c, &RefusedError{fmt.Sprintf("the name %q is longer than %d bytes", r.Name, len(c.Name)-1)}
	}
	copy(c.Name[:], r.Name)
	if r.Split {
		c.Flags = uapi.ShimosSplit
	}
	return c, nil
}

// CreatePartition makes a partition and gives its number. Linux begins the call anew
// after a signal; where ctx ends first, the end of the process undoes it.
func CreatePartition(ctx context.Context, r Request) (uint32, error) {
	c, err := r.create()
	if err != nil {
		return 0, err
	}
	created := make(chan error, 1)
	go func() { created <- call(uapi.ShimosIocCreate, unsafe.Pointer(&c), c.Why[:]) }()
	select {
	case err := <-created:
		return c.ID, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// ReleasePartition returns a partition's cores and memory back to Linux.
func ReleasePartition(id uint32) error {
	r := uapi.ShimosRelease{ID: id}
	return call(uapi.ShimosIocRelease, unsafe.Pointer(&r), r.Why[:])
}

// List returns all partitions, in the order of their numbers.
func List() (list []Info, err error) {
	for id := uint32(0); ; {
		v := uapi.ShimosInfo{ID: id}
		err := call(uapi.ShimosIocInfo, unsafe.Pointer(&v), nil)
		if errors.Is(err, unix.ENOENT) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Info{
			ID: v.ID, Name: uapi.Text(v.Name[:]), State: v.State.String(), UID: v.UID, CPUs: CPUs(v.CPUs).String(),
			Pool: v.Pool, Mail: v.Mail, Kernel: v.Kernel, Runs: v.Runs, PID: v.Proxy,
			Image: uapi.Text(v.Image[:]), End: uapi.Text(v.End[:]),
		})
		if v.ID == ^uint32(0) {
			return list, nil
		}
		id = v.ID + 1
	}
}

// FindPartition takes a partition's number or name.
func FindPartition(word string) (Info, error) {
	list, err := List()
	if err != nil {
		return Info{}, err
	}
	for _, i := range list {
		if word == i.Name && word != "" || word == strconv.FormatUint(uint64(i.ID), 10) {
			return i, nil
		}
	}
	return Info{}, &RefusedError{fmt.Sprintf("there is no partition %q: 'skep part list' shows the existing ones", word)}
}

// SetAllowance sets what users other than root may lend.
func SetAllowance(a Allowance) error {
	v := uapi.ShimosAllow{Revision: uapi.ShimosRevision, GID: a.Group, CPUs: a.CPUs, Bytes: a.Memory}
	return call(uapi.ShimosIocAllow, unsafe.Pointer(&v), v.Why[:])
}

// GetAllowance returns what users other than root may lend.
func GetAllowance() (Allowance, error) {
	var v uapi.ShimosAllow
	err := call(uapi.ShimosIocAllowed, unsafe.Pointer(&v), nil)
	return Allowance{Group: v.GID, CPUs: v.CPUs, Memory: v.Bytes}, err
}

// NodesOf returns the NUMA nodes of CPUs; those of a machine without are 0.
func NodesOf(c CPUs) []int { return nodesBelow(os.DirFS("/sys/devices/system/cpu"), c) }

func nodesBelow(root fs.FS, c CPUs) (list []int) {
	for _, cpu := range c.List() {
		dirs, _ := fs.Glob(root, fmt.Sprintf("cpu%d/node[0-9]*", cpu))
		for _, dir := range dirs {
			n, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
			if err == nil && n < uapi.ShimosNodes && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	if list == nil {
		return []int{0}
	}
	return list
}
