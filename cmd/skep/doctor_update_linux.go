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

// checkUpdates reports what prevents updates of this machine's running kernel. It reads
// /sys, /proc and /dev below root.
func checkUpdates(root string) check {
	missing := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err != nil
	}
	switch traced, _ := os.ReadFile(filepath.Join(root, "proc/sys/kernel/ftrace_enabled")); {
	case missing("sys/kernel/livepatch"):
		return passed(updates, "this kernel is built without livepatch, so it can't be updated while it runs").
			withState(checkNote, "boot one of Debian's kernels")
	case strings.TrimSpace(string(traced)) == "0":
		return passed(updates, "ftrace is switched off, so no function can be replaced").
			withState(checkNote, "sysctl kernel.ftrace_enabled=1")
	case missing(uapi.DynamosDevice):
		return passed(updates, "the module dynamos is not loaded").
			withState(checkNote, cureHere("dynamos")+", if the kernel is to be updated while it runs")
	case os.Geteuid() != 0:
		return passed(updates, "root may update the kernel while it runs")
	}
	return checkApplied(update.Open())
}

// checkApplied reports the applied updates.
func checkApplied(d *update.Device, err error) check {
	var list []update.Status
	if err == nil {
		defer d.Close()
		list, err = update.List(d, update.Names{})
	}
	var refused *update.RefusedError
	if errors.As(err, &refused) {
		return passed(updates, "%v", err).withState(checkNote, "")
	}
	if err != nil {
		return passed(updates, "%v", err).withState(checkNote, "load module and skep of one version")
	}
	return appliedResult(list)
}

func appliedResult(list []update.Status) check {
	n := 0
	for _, u := range list {
		if u.Advised {
			return passed(updates, "a task died inside %s and may have held a lock", u.Name).
				withState(checkBad, "reboot this machine; no update is applied until then")
		}
		if u.State != uapi.DynamosLoaded.String() {
			n++
		}
	}
	return passed(updates, "%d are applied", n)
}
