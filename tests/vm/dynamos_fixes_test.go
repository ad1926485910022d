// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/lab"
	"skep/tests/vmtest"
)

// A workload makes calls of the functions that a fix changes.
type workload struct {
	says string
	word string // of dynamos_enter
	text string // of the shell, before it
}

// tunnel is made over a device that leads nowhere.
const tunnel = `ip link show vx0 >/dev/null 2>&1 && exit 0
ip link add d0 type dummy && ip link set d0 up && ip addr add 192.168.77.1/24 dev d0
ip neigh add 192.168.77.2 lladdr 02:00:00:00:00:02 dev d0
ip link add vx0 type vxlan id 7 remote 192.168.77.2 dstport 4789 dev d0 && ip link set vx0 up
ip addr add 192.168.78.1/24 dev vx0 && ip neigh add 192.168.78.2 lladdr 02:00:00:00:00:03 dev vx0`

// workloads by the number of the case in tests/update/fixes.txt.
var workloads = map[int]workload{
	1:   {says: "ICMPv6 errors", word: "icmp6"},
	3:   {says: "madvise, process_madvise", word: "pageout"},
	5:   {says: "settimeofday of 32-bit programs", word: "settime"},
	17:  {says: "mremap, remap_file_pages", word: "remap"},
	22:  {says: "links in /proc", word: "links"},
	27:  {says: "a BPF program with an XSKMAP", word: "xskmap"},
	42:  {says: "keyctl", word: "persistent"},
	68:  {says: "sockets", word: "slab"},
	77:  {says: "a VXLAN tunnel", text: tunnel, word: "send"},
	93:  {says: "signals of pipes", word: "fasync"},
	104: {says: "rules of audit", word: "watch"},
}

// Each fix that could be built is loaded, called, reverted and unloaded, one after the other in
// one machine. The machine has one processor, because some of the functions are always in use,
// and QEMU's emulator may execute stale text after another processor has changed it.
func TestSoakUpdateFixes(t *testing.T) {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(build, "update", "fixes")
	files, err := filepath.Glob(filepath.Join(folder, "*"+pack.Suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no packages in %s (%v): make soak ROOM=dynamos-fixes builds them", folder, err)
	}
	const kernel = "6.1.176-1"
	vm := vmtest.Boot(t, lab.Machine{Name: "fixes", Kernel: kernel, CPUs: 1, Memory: 1024, Modules: []string{"dynamos", "dummy", "vxlan"}}, vmtest.Limit(40*time.Minute))
	f := fixes{t, vm, filepath.Join(build, "bin", "skep") + " update ", folder}
	for _, n := range caseNumbers(t, files) {
		t.Log(f.tryFix(n))
	}
	_, text := f.runScript(rmmodEngine(100) + "cat /proc/modules")
	checkGuest(t, "no part of the fixes stays", !strings.Contains(text, "fix_") && !strings.Contains(text, "dynamos"), "%s", text)
}

// caseNumbers returns those of the cases, in their order.
func caseNumbers(t *testing.T, files []string) []int {
	var list []int
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), pack.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// fixes takes the packages of a folder through one machine.
type fixes struct {
	t            *testing.T
	vm           *vmtest.VM
	skep, folder string
}

// runScript runs a script and reports whether it ended with status 0.
func (f *fixes) runScript(script string) (bool, string) {
	text := f.vm.Output(shellProgram("{ " + script + "\n} 2>&1; echo exit $?"))
	text, ok := strings.CutSuffix(text, "exit 0\n")
	return ok, text
}

// tryFix loads, applies, reverts and unloads one fix, and returns how far that succeeded.
func (f *fixes) tryFix(n int) string {
	name := fmt.Sprintf("fix_%d", n)
	line := fmt.Sprintf("case %d:", n)
	loaded, text := f.runScript(fmt.Sprintf(f.skep+"apply %s --all --confirm 0", filepath.Join(f.folder, strconv.Itoa(n)+pack.Suffix)))
	checkGuest(f.t, fmt.Sprintf("case %d is loaded", n), loaded, "%s", text)
	if !loaded {
		return line + " not loaded"
	}
	line += " loaded," + f.enterFunctions(n, name)
	reversed, text := f.runScript(fmt.Sprintf(f.skep+"revert --wait 60s --remove %s", name))
	checkGuest(f.t, fmt.Sprintf("case %d is reversed", n), reversed && strings.Contains(text, "unloaded"), "%s", text)
	if !reversed {
		return line + " not reversed"
	}
	return line + " reversed"
}

// enterFunctions makes a program call the new functions, and reads in the counters which of them
// were called.
func (f *fixes) enterFunctions(n int, name string) string {
	w, ok := workloads[n]
	if !ok {
		return " not entered (no workload),"
	}
	before := f.readCounts(name)
	script := "( true\n" + w.text + "\n)"
	if w.word != "" {
		script += " && " + toolPath(f.t, "dynamos_enter") + " " + w.word
	}
	went, text := f.runScript(script)
	checkGuest(f.t, fmt.Sprintf("case %d: %s still do what they did", n, w.says), went, "%s", text)
	var entered, idle []string
	for i, now := range f.readCounts(name) {
		if calls := now.New.Calls - before[i].New.Calls; calls > 0 {
			entered = append(entered, fmt.Sprintf("%s %d", now.Symbol, calls))
		} else {
			idle = append(idle, now.Symbol)
		}
	}
	checkGuest(f.t, fmt.Sprintf("case %d is entered by %s", n, w.says), len(entered) > 0, "no call of %s", strings.Join(idle, ", "))
	return fmt.Sprintf(" entered by %s (calls: %s; none: %s),", w.says, strings.Join(entered, ", "), strings.Join(idle, ", "))
}

func (f *fixes) readCounts(name string) []update.Function {
	_, text := f.runScript(f.skep + "status --json " + name)
	var list []update.Status
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		f.t.Fatalf("status of %s: %v: %q", name, err, text)
	}
	return list[0].Functions
}
