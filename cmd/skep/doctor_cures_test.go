// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeBelow writes files below a root.
func writeBelow(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The cure for each setting that forbids user namespaces is the command that changes it.
func TestDoctorCuresNamespaces(t *testing.T) {
	for _, c := range []struct{ clone, most, armor, want string }{
		{"0", "9", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"1", "0", "1", "sysctl user.max_user_namespaces=10000 && sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
		{"1", "9", "0", "allow user namespaces, which no sysctl forbids here"},
	} {
		root := t.TempDir()
		writeBelow(t, root, map[string]string{"proc/sys/kernel/unprivileged_userns_clone": c.clone,
			"proc/sys/user/max_user_namespaces": c.most, "proc/sys/kernel/apparmor_restrict_unprivileged_userns": c.armor})
		if got := namespacesCure(root); got != c.want && !strings.HasPrefix(got, c.want+":") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Linux is told to use tsc only where it offers that.
func TestDoctorCuresTheClock(t *testing.T) {
	const clocks = "sys/devices/system/clocksource/clocksource0/"
	for offered, want := range map[string]string{
		"hpet tsc": "echo tsc >/" + clocks + "current_clocksource", "hpet tsc-early": "lend cores of a machine where Linux offers the clock source tsc",
	} {
		root := t.TempDir()
		writeBelow(t, root, map[string]string{clocks + "current_clocksource": "hpet", clocks + "available_clocksource": offered})
		if c := checkLending(root); c.State != checkNote || c.Cure != want {
			t.Errorf("%s: %+v", offered, c)
		}
	}
}

// A module that is loaded is removed first, but only if there is another one.
func TestDoctorReloadsAModule(t *testing.T) {
	for load, want := range map[string]string{"modprobe o2g": "reload the module: rmmod o2g && modprobe o2g", "build o2g.ko for Linux 6": "reload the module: build o2g.ko for Linux 6"} {
		if got := reloadCure(load); got != want {
			t.Errorf("%s: %s", load, got)
		}
	}
}
