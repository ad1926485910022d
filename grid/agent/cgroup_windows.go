// SPDX-License-Identifier: MIT

package agent

// cgroups are Linux's.
type cgroups struct{}

func (a *Agent) prepareCgroups() {}
