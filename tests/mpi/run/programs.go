// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"skep/tests/tap"
)

// A flavour is an MPI and a program that was built for it, or for another MPI with the same
// ABI.
type flavour struct{ name, prefix, program string }

func (o *options) listFlavours() []flavour {
	mpich, openmpi := filepath.Join(o.build, "mpi", "mpich"), filepath.Join(o.build, "mpi", "openmpi")
	program := func(kind string) string { return filepath.Join(o.build, "test", "mpi", "program-"+kind) }
	return []flavour{
		{"MPICH 5", mpich, program("wheel")},
		{"a program of Debian's MPICH on MPICH 5", mpich, program("mpich")},
		{"a program of Debian's Open MPI on Open MPI 5", openmpi, program("openmpi")},
		{"Debian's Open MPI", "/usr", program("openmpi")},
	}
}

// checkNames are the names of the checks in tests/mpi/program.c.
var checkNames = []string{
	"ring", "all to all", "sum", "probe", "any source", "a small message overtakes a huge one",
	"unexpected messages in reverse", "20000 receives at once", "synchronous sends", "truncation",
	"cancelled receive", "waiting",
}

func (o *options) runPrograms(t *tap.Report) {
	for _, f := range o.listFlavours() {
		for _, n := range o.ranks {
			r := o.start(job{prefix: f.prefix, ranks: n, deadline: o.deadline, program: []string{f.program}})
			where := fmt.Sprintf("%s, %d ranks", f.name, n)
			for _, name := range checkNames {
				good := strings.Contains(r.output, "\nok - "+name+"\n")
				t.Check(good, lastTest(&r), "%s: %s", where, name)
			}
			t.Check(r.err == nil && !r.hung, r.lastLines(8), "%s: ends well", where)
			t.Check(r.messages > 0, r.lastLines(3), "%s: its messages went over O2G", where)
			for line := range strings.Lines(r.output) {
				if strings.HasPrefix(line, "# waited") || strings.HasPrefix(line, "skep: ") {
					fmt.Print("# ", where, ": ", strings.TrimPrefix(line, "# "))
				}
			}
		}
	}
}

// lastTest names the test that ran last, for a failure's details.
func lastTest(r *result) string {
	last := "nothing"
	for line := range strings.Lines(r.output) {
		if name, found := strings.CutPrefix(line, "# "); found {
			last = strings.TrimSpace(name)
		}
	}
	return "last: " + last + "\n" + r.lastLines(6)
}
