// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"skep/internal/lab"
)

// libo2gSuites are the tests of libo2g, which know no engine, and how many
// each has at least.
var libo2gSuites = []struct {
	name  string
	floor int
}{
	{"message", 89}, {"life", 91}, {"death", 20}, {"stranger", 57},
}

// library: libo2g's own tests, over the kernel engine.
func (g *o2gGuest) library() {
	for _, s := range libo2gSuites {
		g.vm.Run(lab.Program{Args: []string{tool(g.t, "o2g_lib_"+s.name)}, User: true,
			Env: []string{"SKEP_O2G_ENGINE=kernel"}}, s.floor)
	}
}
