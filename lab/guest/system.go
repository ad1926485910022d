// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
)

// The ordinary user of programs with Program.User.
const (
	userID   = 1000
	userName = "skep"
	userHome = "/skep"
)

func setNames(c *wire.Config) error {
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return err
	}
	hosts := append([]string{"127.0.0.1 localhost", "::1 localhost ip6-localhost"}, c.Hosts...)
	if err := os.WriteFile("/etc/hosts", []byte(strings.Join(hosts, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/hostname", []byte(c.Name+"\n"), 0o644); err != nil {
		return err
	}
	if err := addUser(); err != nil {
		return err
	}
	return raiseLink("lo")
}

// addUser adds user 1000 to passwd and group in the overlay. It replaces a user of the
// host with that number or name.
func addUser() error {
	user := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh", userName, userID, userID, userHome)
	if err := addLine("/etc/passwd", user); err != nil {
		return err
	}
	if err := addLine("/etc/group", fmt.Sprintf("%s:x:%d:", userName, userID)); err != nil {
		return err
	}
	if err := os.MkdirAll(userHome, 0o755); err != nil {
		return err
	}
	return os.Chown(userHome, userID, userID)
}

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

// setKernel sets the kernel's watchdogs so that a hang is reported on the console, but a
// guest that is slow because the host is busy is not. From here on the console also shows
// messages below warnings.
func setKernel(c *wire.Config) error {
	scale := max(1, c.TimeoutScale)
	settings := map[string]int{
		"kernel/watchdog_thresh":        min(60, 20*scale),
		"kernel/hung_task_timeout_secs": 60 * scale,
		"kernel/printk":                 7,
	}
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/"+name, []byte(strconv.Itoa(value)), 0o644); err != nil {
			return err
		}
	}
	if err := rawResults(); err != nil {
		return err
	}
	return setLimits()
}

// setLimits sets the limits of Debian's ordinary sessions for every program: 1,024 open
// files (hard limit 524,288) and 8 MiB of locked memory. The others keep the kernel's
// defaults (8 MiB of stack, no core files).
func setLimits() error {
	limits := map[int]unix.Rlimit{
		unix.RLIMIT_NOFILE:  {Cur: 1024, Max: 524288},
		unix.RLIMIT_MEMLOCK: {Cur: 8 << 20, Max: 8 << 20},
	}
	for which, limit := range limits {
		if err := unix.Setrlimit(which, &limit); err != nil {
			return fmt.Errorf("limit %d: %w", which, err)
		}
	}
	return nil
}

func loadModules(c *wire.Config) error {
	ours := map[string]bool{}
	for _, m := range c.Modules {
		if m.File == "" {
			if err := runTool("", "modprobe", m.Name); err != nil {
				return err
			}
			continue
		}
		ours[m.Name] = true
		if err := loadOurs(m, ours); err != nil {
			return fmt.Errorf("%s (%s): %w; dmesg is in the console log", m.Name, m.File, err)
		}
	}
	return nil
}

// loadOurs loads one of our modules, and before it the kernel's modules that it needs.
func loadOurs(m wire.Module, ours map[string]bool) error {
	needs, err := moduleDeps(m.File)
	if err != nil {
		return err
	}
	for _, name := range needs {
		if ours[name] {
			continue
		}
		if err := runTool("", "modprobe", name); err != nil {
			return err
		}
	}
	return insert(m.File)
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

func setSwap(c *wire.Config) error {
	for _, disk := range c.Swap {
		if err := makeSwap(disk); err != nil {
			return fmt.Errorf("%s: %w", disk, err)
		}
		path, err := unix.BytePtrFromString(disk)
		if err != nil {
			return err
		}
		if _, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
			return fmt.Errorf("swap on %s: %w", disk, e)
		}
	}
	return nil
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
