// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/lab"
	"skep/tests/vmtest"
)

// congestion fills a socket of RDS over the loopback, so that the other end is informed.
const congestion = `python3 -c '
import socket
a, b = (socket.socket(21, socket.SOCK_SEQPACKET) for n in range(2))
a.bind(("127.0.0.1", 4000)); b.bind(("127.0.0.1", 4001))
a.setblocking(False)
try:
	for n in range(10000): a.sendto(bytes(8192), ("127.0.0.1", 4001))
except OSError: pass
b.setblocking(False)
try:
	for n in range(10000): b.recv(8192)
except OSError: pass
'`

// drawnLoads call functions of modules that need no device, by the number of the case in
// tests/update/drawn.txt. They leave the module loaded: modprobe -r would unload it too.
var drawnLoads = map[int]workload{
	4:  {says: "a message to /dev/ecryptfs", text: `printf '\1\0\0\0\0\0\0\0\1' >/dev/ecryptfs || true`},
	11: {says: "a simulated NAND chip", text: "modprobe nandsim first_id_byte=0x20 second_id_byte=0xa2 third_id_byte=0x00 fourth_id_byte=0x15 && rmmod nandsim"},
	41: {says: "a full socket of RDS", text: congestion},
}

// Each of the drawn fixes that could be built is loaded with the module that it changes, applied,
// reverted and unloaded in one machine. Those that are held stay, reverted.
func TestSoakUpdateDrawn(t *testing.T) {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(build, "update", "drawn")
	files, err := filepath.Glob(filepath.Join(folder, "*"+pack.Suffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no packages in %s (%v): make soak ROOM=dynamos-drawn builds them", folder, err)
	}
	vm := vmtest.Boot(t, lab.Machine{Name: "drawn", Kernel: "6.1.176-1", CPUs: 1, Memory: 2048, Modules: []string{"dynamos"}}, vmtest.Limit(40*time.Minute))
	f := fixes{t, vm, filepath.Join(build, "bin", "skep") + " update ", folder}
	held := 0
	for _, n := range caseNumbers(t, files) {
		p, err := pack.Open(filepath.Join(folder, strconv.Itoa(n)+pack.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Kernels[0].Held) > 0 {
			held++
		}
		t.Log(f.tryDrawn(n, &p.Kernels[0]))
	}
	_, text := f.runScript(`grep -c '^fix_' /proc/modules || true`)
	checkGuest(t, "only fixes that are held stay", strings.TrimSpace(text) == strconv.Itoa(held), "%d are held, and %s stay", held, text)
}

// tryDrawn takes one fix through the machine, and returns how far that went.
func (f *fixes) tryDrawn(n int, k *pack.Kernel) string {
	name := fmt.Sprintf("fix_%d", n)
	line := fmt.Sprintf("case %d:", n)
	if k.Module != "" {
		there, text := f.runScript("modprobe " + k.Module + " && test -d /sys/module/" + k.Module)
		line += " " + k.Module
		if !there {
			line += " does not load without its device (" + strings.TrimSpace(text) + ")"
		}
	}
	loaded, text := f.runScript(fmt.Sprintf(f.skep+"apply %s --all --confirm 0 --enter 2m", filepath.Join(f.folder, strconv.Itoa(n)+pack.Suffix)))
	checkGuest(f.t, fmt.Sprintf("case %d is applied", n), loaded, "%s", text)
	if !loaded {
		return line + ", not applied"
	}
	line += ", applied" + f.enterDrawn(n, name)
	remove := " --remove"
	if len(k.Held) > 0 {
		remove = ""
	}
	reverted, text := f.runScript(fmt.Sprintf(f.skep+"revert --wait 2m%s %s", remove, name))
	checkGuest(f.t, fmt.Sprintf("case %d is reverted", n), reverted, "%s", text)
	line += ", " + strings.TrimSpace(text)
	if len(k.Held) > 0 {
		refused, text := f.runScript(f.skep + "remove " + name)
		checkGuest(f.t, fmt.Sprintf("case %d is held, and not removed", n), !refused && strings.Contains(text, "held"), "%s", text)
	}
	if k.Module != "" {
		unloaded, text := f.runScript("modprobe -r " + k.Module)
		checkGuest(f.t, fmt.Sprintf("case %d: the module %s is unloaded", n, k.Module), unloaded, "%s", text)
		if len(k.Held) == 0 {
			f.tryBefore(n, name, k.Module)
			line += "; in force before its module, and left with it"
		}
	}
	return line
}

// tryBefore applies a fix before its module is loaded, and unloads the module.
func (f *fixes) tryBefore(n int, name, module string) {
	w := &walker{t: f.t, vm: f.vm, skepPath: strings.TrimSuffix(f.skep, " update ")}
	w.runUpdate(fmt.Sprintf("apply %s --all --confirm 0 --enter 2m", filepath.Join(f.folder, strconv.Itoa(n)+pack.Suffix)), "on trial for all")
	there, text := f.runScript("modprobe " + module + " && modprobe -r " + module)
	checkGuest(f.t, fmt.Sprintf("case %d: the module %s comes and goes", n, module), there, "%s", text)
	w.waitForRevert(fmt.Sprintf("case %d leaves with its module", n), name, "gone", "the module "+module+" was unloaded")
	w.runUpdate("remove "+name, "unloaded")
}

// enterDrawn has the functions called that a fix of a module changes, whose calls are not counted,
// and finds their new versions in the trace of functions.
func (f *fixes) enterDrawn(n int, name string) string {
	w, ok := drawnLoads[n]
	if !ok {
		return ", not entered (no workload)"
	}
	const tracing = "cd /sys/kernel/tracing && "
	on, text := f.runScript("mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing\n" +
		tracing + "echo ':mod:" + name + "' >set_ftrace_filter && echo >trace && echo function >current_tracer")
	checkGuest(f.t, fmt.Sprintf("case %d is traced", n), on, "%s", text)
	went, text := f.runScript("( " + w.text + "\n)")
	checkGuest(f.t, fmt.Sprintf("case %d: %s still do what they did", n, w.says), went, "%s", text)
	_, trace := f.runScript(tracing + "grep -v '^#' trace | awk '{print $5}' | sort | uniq -c; echo nop >current_tracer; echo >set_ftrace_filter")
	entered := strings.Join(strings.Fields(trace), " ")
	checkGuest(f.t, fmt.Sprintf("case %d is entered by %s", n, w.says), entered != "", "no call in the trace")
	return fmt.Sprintf(", entered by %s (%s)", w.says, entered)
}
