// SPDX-License-Identifier: MIT

package agent

// isStopped cannot look into a process: the callers look at what it does.
func isStopped(p *process) bool { return p.isPaused() }
