// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// The ordinary user of programs with Program.User.
const (
	userID   = 1000
	userName = "skep"
	userHome = "/skep"
)

// addLine inserts an entry as the first line and removes others with its name or number.
func addLine(file, entry string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lines := []string{entry}
	for line := range strings.Lines(string(old)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) > 2 && f[0] != userName && f[2] != strconv.Itoa(userID) {
			lines = append(lines, strings.Join(f, ":"))
		}
	}
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// moduleDeps reads the names in a module's "depends=" entry.
func moduleDeps(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	_, rest, found := bytes.Cut(data, []byte("\x00depends="))
	if !found {
		return nil, errors.New("it has no depends= entry: not a kernel module")
	}
	value, _, _ := bytes.Cut(rest, []byte{0})
	return strings.FieldsFunc(string(value), func(r rune) bool { return r == ',' }), nil
}

// makeSwap writes the header page of a swap space: version 1, the number of the last page,
// no bad pages, and the signature at the end.
func makeSwap(disk string) error {
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	page := make([]byte, os.Getpagesize())
	binary.LittleEndian.PutUint32(page[1024:], 1)
	binary.LittleEndian.PutUint32(page[1028:], uint32(size/int64(len(page))-1))
	copy(page[len(page)-10:], "SWAPSPACE2")
	if _, err := f.WriteAt(page, 0); err != nil {
		return err
	}
	return f.Sync()
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// measureGuest returns the properties of the running machine for its hello.
func measureGuest(c *wire.Config) wire.Hello {
	h := wire.Hello{Release: kernelRelease(), CPUs: runtime.NumCPU()}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.Memory = int(info.Totalram * uint64(info.Unit) >> 20)
		h.Swap = int(info.Totalswap * uint64(info.Unit) >> 20)
	}
	dirs, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	for _, dir := range dirs {
		list, _ := os.ReadFile(dir + "/cpulist")
		h.Nodes = append(h.Nodes, wire.NUMA{CPUs: strings.TrimSpace(string(list)), Memory: nodeMemory(dir)})
	}
	up, _ := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(up), " ")
	h.Boot, _ = strconv.ParseFloat(first, 64)
	return h
}

func nodeMemory(dir string) int {
	data, _ := os.ReadFile(dir + "/meminfo")
	_, rest, _ := strings.Cut(string(data), "MemTotal:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kib, _ := strconv.Atoi(f[0])
	return kib >> 10
}
