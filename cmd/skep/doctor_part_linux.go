// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"skep/internal/uapi"
	lent "skep/shimos/part"
)

// checkLending reports what prevents this machine from lending cores. It reads /sys and
// /dev below root.
func checkLending(root string) check {
	const name = "partitions"
	if text, err := os.ReadFile(filepath.Join(root, "sys/hypervisor/type")); err == nil && strings.TrimSpace(string(text)) == "xen" {
		return passed(name, "Linux runs on Xen, which starts and stops CPUs itself").
			withState(checkNote, "lend cores of bare metal, or below KVM")
	}
	const clocks = "/sys/devices/system/clocksource/clocksource0/"
	clock, _ := os.ReadFile(filepath.Join(root, clocks+"current_clocksource"))
	if text := strings.TrimSpace(string(clock)); text != "tsc" {
		return passed(name, "Linux's clock source is %q, so lent cores would have no clock", text).
			withState(checkNote, clockCure(root, clocks))
	}
	if runtime.NumCPU() < 2 {
		return passed(name, "one CPU, which stays with Linux").withState(checkNote, "lend cores of a larger machine")
	}
	if _, err := os.Stat(filepath.Join(root, uapi.ShimosDevice)); err != nil {
		return passed(name, "the module shimos is not loaded").withState(checkNote, cureHere("shimos")+", if cores are to be lent here")
	}
	return checkAllowance()
}

// clockCure says how Linux gets a clock source that lent cores can use.
func clockCure(root, clocks string) string {
	list, _ := os.ReadFile(filepath.Join(root, clocks+"available_clocksource"))
	if !slices.Contains(strings.Fields(string(list)), "tsc") {
		return "lend cores of a machine where Linux offers the clock source tsc"
	}
	return "echo tsc >" + clocks + "current_clocksource"
}

// checkAllowance reads from the module who may lend what.
func checkAllowance() check {
	const name = "partitions"
	a, err := lent.GetAllowance()
	switch {
	case err != nil:
		return passed(name, "%v", partError(err)).withState(checkNote, "install module and skep of one version")
	case os.Geteuid() == 0:
		return passed(name, "root may lend any CPU but 0")
	case a.Group == uapi.ShimosNobody:
		return passed(name, "root alone may lend cores").withState(checkNote, "have root allow a group: skep part allow --group GROUP --cpus LIST --mem SIZE")
	}
	return passed(name, "members of group %d may lend CPUs %s", a.Group, a.CPUs)
}
