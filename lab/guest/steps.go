// SPDX-License-Identifier: MIT

// This file has steps of process 1 that change the machine which they run on: its names,
// users, limits, modules and swap space.

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/lab/wire"
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
