// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"strings"
)

// walkPrograms lets a pinned BPF program choose. What is pinned there and is no such program is
// refused by name.
func (w *walker) walkPrograms() {
	w.t.Helper()
	w.vm.Output(shellProgram("mkdir -p /tmp/bpf && " + toolPath(w.t, "dynamos_program") + " pin /tmp/bpf"))
	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=one build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_hand"), readKernelID)))
	w.runUpdate("apply dynamos_hand --program /tmp/bpf/choose --confirm 0", "on trial for program choose (number ")
	w.vm.Output(shellProgram(probedCalls))
	text := w.vm.Output(shellProgram(w.skepPath + " update status dynamos_hand --json"))
	checkGuest(w.t, "a pinned program chooses", strings.Contains(text, "program choose (number ") && strings.Contains(text, `"calls": 5000`), "%q", text)
	for path, want := range map[string]string{"labels": "not a program", "other": "not of type raw_tracepoint", "none": "bpftool prog load", "../passwd": "bpftool prog load"} {
		w.checkRefused("a policy asks no "+path, "policy dynamos_hand --program /tmp/bpf/"+path, 2, want)
	}
	w.vm.Output(shellProgram("rm /tmp/bpf/*"))
	w.runUpdate("policy dynamos_hand --nobody", "for nobody")
	w.runUpdate("revert --wait 2m --remove dynamos_hand", "unloaded")
}
