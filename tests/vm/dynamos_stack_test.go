// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"strings"

	"skep/dynamos/update"
)

// walkStack changes functions whose arguments are not all in registers, for all tasks: one with as
// many as its format says, and one with eight or nine. No call of them is counted.
func (w *walker) walkStack() {
	w.checkStack("before", "", "Invalid argument")
	file := w.filePath("stack")
	w.runUpdate("inspect "+file, "no limit of errors, latency or time holds for: seq_printf, do_mmap")
	w.checkRefused("an update whose calls are not counted has no policy", "apply "+file+" --tgid 1", 4, "together")
	w.checkRefused("a limit that nothing can reach is refused", "apply "+file+" --all --max-errors 20", 4, "the calls of stack cannot be counted")
	w.runUpdate("apply "+file+" --all --enter 2m --confirm 0", "on trial for all")
	w.waitForStatus("stack", func(s *update.Status) bool { return s.State == "trial" })
	w.checkStack("with the update", "load ", "Numerical argument out of domain")
	text := w.runUpdate("status", "not counted")
	checkGuest(w.t, "calls that pass no wrapper are not told as none", strings.Count(text, "not counted") == 4, "%s", text)
	w.runUpdate("status stack", "not counted")
	// Programs that compute all the time are on all processors but one at each look at stacks.
	text = w.vm.Output(shellProgram("for c in $(seq $(nproc)); do (while :; do :; done) & all=\"$all $!\"; done; " +
		w.skepPath + " update revert --wait 2m --remove stack; kill -9 $all && echo they ran"))
	checkGuest(w.t, "programs that always run do not hold the update", strings.Contains(text, "stack: unloaded") && strings.Contains(text, "they ran"), "%q", text)
	w.checkStack("after the revert", "", "Invalid argument")
}

// checkStack calls both functions: the figures of the load have nine arguments, and the map of
// nothing is refused by what the ninth page of a file is told.
func (w *walker) checkStack(when, prefix, answer string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram("cat /proc/loadavg; " + w.hammer + " empty 7; " + w.hammer + " empty 8"))
	lines := strings.Split(text, "\n")
	load, ok := strings.CutPrefix(lines[0], prefix)
	fields := strings.Fields(load)
	checkGuest(w.t, when+" a variable number of arguments arrives", ok && len(fields) == 5 && strings.Contains(fields[3], "/") &&
		strings.Count(strings.Join(fields[:3], " "), ".") == 3, "%q", text)
	checkGuest(w.t, when+" arguments on the stack arrive", len(lines) > 2 && lines[1] == answer && lines[2] == "Invalid argument", "%q", text)
}
