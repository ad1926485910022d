// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/internal/uapi"
)

const (
	updates      = "updates"
	operatorKeys = "update keys"
)

// keysSoon is how long before the expiry of the keys doctor says so.
const keysSoon = 7 * 24 * time.Hour

// checkKeys reports by whose keys this machine takes updates.
func checkKeys() check {
	s, err := newTrust().Load()
	if err != nil {
		return passed(operatorKeys, "%v", err).withState(checkBad, "no update is applied until then")
	}
	if s.Pinned == "" {
		return passed(operatorKeys, "none: root may apply any update")
	}
	k, _, err := s.Keys()
	if err != nil {
		return passed(operatorKeys, "%v", err).withState(checkBad, "no update is applied until then")
	}
	left := 0
	for _, key := range k.Keys {
		if s.Revoked[key.ID()] == "" {
			left++
		}
	}
	c := passed(operatorKeys, "fleet %s, version %d: %d of %d must sign; expires %s", k.Fleet, k.Version, k.Threshold, left, k.Expires.Format(time.DateOnly))
	now := trustNow()
	_, err = s.Tick(now)
	switch {
	case left < k.Threshold:
		return c.withState(checkBad, "too few keys are left: pin a document with others, 'skep update keys trust FILE --replace'")
	case err != nil:
		return passed(operatorKeys, "%v", err).withState(checkBad, "set the clock")
	case !now.Before(k.Expires):
		return c.withState(checkBad, "it has expired: ask the operators for a newer document, and whether the hub withholds it")
	case k.Expires.Sub(now) < keysSoon:
		return c.withState(checkNote, "ask the operators for a newer document")
	}
	return c
}

// checkUpdates reports what prevents updates of this machine's running kernel. It reads
// /sys, /proc and /dev below root.
func checkUpdates(root string) check {
	missing := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err != nil
	}
	locked := update.ReadLockdown(root)
	switch traced, _ := os.ReadFile(filepath.Join(root, "proc/sys/kernel/ftrace_enabled")); {
	case missing("sys/kernel/livepatch"):
		return passed(updates, "this kernel is built without livepatch, so it can't be updated while it runs").
			withState(checkNote, "boot one of Debian's kernels")
	case strings.TrimSpace(string(traced)) == "0":
		return passed(updates, "ftrace is switched off, so no function can be replaced").
			withState(checkNote, "sysctl kernel.ftrace_enabled=1")
	case missing(uapi.DynamosDevice) && locked.Signed():
		return passed(updates, "%v: it loads signed modules only, also those of updates", locked).
			withState(checkNote, "make a key that this machine trusts (mokutil --import), sign dynamos.ko with the kernel's sign-file, and packages with 'skep update sign FILE --sign-module KEY'")
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
	return appliedResult(list, newKeep())
}

func appliedResult(list []update.Status, keep *update.Keep) check {
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
	var off strings.Builder
	if err := showOff(&off, keep); err != nil {
		return passed(updates, "%v", err).withState(checkBad, "")
	}
	if strings.Contains(off.String(), " is turned off: ") {
		return passed(updates, "%d are applied; %s", n, strings.TrimSpace(off.String())).withState(checkBad, "find out why the machine ended")
	}
	return passed(updates, "%d are applied", n)
}
