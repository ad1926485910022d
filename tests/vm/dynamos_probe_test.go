// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"encoding/json"
	"fmt"
	"strings"

	"skep/dynamos/update"
)

// probedCalls makes 3,000 calls of getpgid that succeed, and 2,000 that fail. Nothing else in the
// machine calls it.
const probedCalls = `python3 -c '
import os
for n in range(3000): os.getpgid(0)
for n in range(2000):
	try: os.getpgid(99999999)
	except OSError: pass
'`

// probe has skep count the calls of functions while a script runs. What the script prints is left
// out.
func (w *walker) probe(options, script string) (list []update.Probed) {
	w.t.Helper()
	text := w.vm.Output(shellProgram("cat >/tmp/probed <<'END'\n" + script + "\nEND\n" +
		w.skepPath + " update probe --json " + options + " -- sh -c 'sh /tmp/probed >/dev/null 2>&1 || echo it failed >&2'"))
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		w.t.Fatalf("probe %s: %v: %q", options, err, text)
	}
	return list
}

// walkProbes counts calls of known numbers: alone, and while an update changes the function. Then
// it kills the command. The module can be unloaded afterwards.
func (w *walker) walkProbes() {
	w.t.Helper()
	const one = "__x64_sys_getpgid"
	p := w.probe("--each-call "+one+" vfs_read", probedCalls)
	timed := uint64(0)
	for _, n := range p[0].Latency {
		timed += n
	}
	checkGuest(w.t, "a probe counts each call, each error and each time", p[0].Calls == 5000 && p[0].Returned == 5000 && p[0].Errors == 2000 &&
		p[0].Inside == 0 && p[0].Sampled == 5000 && timed == 5000 && p[0].P50 > 0 && p[0].Installer == "direct", "%+v", p[0])
	checkGuest(w.t, "a second probe counts another function", p[1].Symbol == "vfs_read" && p[1].Calls > 0 && p[1].Calls != 5000, "%+v", p[1])
	p = w.probe(one, probedCalls)
	checkGuest(w.t, "a probe counts from 0, and times one call in 64", p[0].Calls == 5000 && p[0].Sampled > 0 && p[0].Sampled <= 5000/32, "%+v", p[0])

	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=one build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_hand"), readKernelID)))
	p = w.probe(one, probedCalls+"\n"+w.skepPath+" update apply dynamos_hand --all --confirm 0 && "+probedCalls+
		" && "+w.skepPath+" update revert --wait 2m --remove dynamos_hand && "+probedCalls)
	checkGuest(w.t, "a probe counts the calls of an update that comes and goes", p[0].Calls == 15000 && p[0].Inside == 0, "%+v", p[0])

	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=together build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_hand"), readKernelID)))
	text := w.vm.Output(shellProgram(w.skepPath + " update probe " + one + " -- " + w.skepPath + " update apply dynamos_hand --all 2>&1 || true"))
	checkGuest(w.t, "an update of class together is refused while its function is probed", strings.Contains(text, one+" is probed"), "%q", text)
	w.runUpdate("remove dynamos_hand", "unloaded")

	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=straight build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_hand"), readKernelID)))
	w.runUpdate("apply dynamos_hand --all --confirm 0", "on trial for all")
	w.checkRefused("a probe past which an update leads all calls is refused", "probe --for 1s "+one, 4, "revert it first")
	w.runUpdate("revert --wait 2m --remove dynamos_hand", "unloaded")

	for name, want := range map[string]string{"schedule": "stay for good", "synchronize_rcu": "made of", "nmi_handle": "NMI", "seq_printf": "variable number",
		"do_mmap": "more arguments", "no_such_function": "do not know", "do_syscall_64": "notrace", one + ",7": "not a function of this kernel", "a-b": "not the name"} {
		w.checkRefused("a probe of "+name+" is refused", "probe --for 1s "+name, 4, want)
	}
	w.vm.Output(shellProgram("for n in 0.2 0.4 1; do " + w.skepPath + " update probe --each-call " + one + " vfs_read & sleep $n; kill -9 $!; done\n" +
		w.skepPath + " update probe " + one + " vfs_read 2>/tmp/said & p=$!; until grep -q probing /tmp/said; do sleep 0.1; done\n" +
		probedCalls + "; kill -9 $p; wait"))
	engineUnloads(w.t, w.vm, 300)
}
