// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"skep/dynamos/update"
	"skep/internal/uapi"
)

const updates = "updates"

// checkUpdates says what keeps this machine's kernel from being updated while
// it runs. root is where /sys, /proc and /dev begin.
func checkUpdates(root string) check {
	missing := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err != nil
	}
	switch traced, _ := os.ReadFile(filepath.Join(root, "proc/sys/kernel/ftrace_enabled")); {
	case missing("sys/kernel/livepatch"):
		return good(updates, "this kernel is built without livepatch, so it can't be updated while it runs").
			but(checkNote, "boot one of Debian's kernels")
	case strings.TrimSpace(string(traced)) == "0":
		return good(updates, "ftrace is switched off, so no function can be replaced").
			but(checkNote, "sysctl kernel.ftrace_enabled=1")
	case missing(uapi.DynamosDevice):
		return good(updates, "the module dynamos is not loaded").
			but(checkNote, "insmod dynamos.ko, if the kernel is to be updated while it runs")
	case os.Geteuid() != 0:
		return good(updates, "root may update the kernel while it runs")
	}
	return checkApplied(update.Open())
}

// checkApplied asks the module what is applied.
func checkApplied(d *update.Device, err error) check {
	var list []update.Status
	if err == nil {
		defer d.Close()
		list, err = update.List(d, update.Names{})
	}
	var refused *update.RefusedError
	if errors.As(err, &refused) {
		return good(updates, "%v", err).but(checkNote, "")
	}
	if err != nil {
		return good(updates, "%v", err).but(checkNote, "load module and skep of one version")
	}
	return applied(list)
}

func applied(list []update.Status) check {
	n := 0
	for _, u := range list {
		if u.Advised {
			return good(updates, "a task died inside %s and may have held a lock", u.Name).
				but(checkBad, "reboot this machine; no update is applied until then")
		}
		if u.State != uapi.DynamosLoaded.String() {
			n++
		}
	}
	return good(updates, "%d are applied", n)
}
