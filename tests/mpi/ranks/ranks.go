// SPDX-License-Identifier: MIT

// Package ranks has what tests of MPI jobs share: their environment, and what skep mpirun
// says about their messages.
package ranks

import (
	"regexp"
	"strconv"
)

// Environment adds variables to base that permit Open MPI to run as root, and let ranks that
// wait yield their core.
func Environment(base []string, more ...string) []string {
	list := append(base[:len(base):len(base)],
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_mpi_yield_when_idle=1")
	return append(list, more...)
}

var closingLine = regexp.MustCompile(`(\d+) messages? over O2G(?: \((\w+) engine\))?`)

// CountMessages returns what the closing line of a job says: messages over O2G, and the
// engine that matched them. Without such a line it returns 0.
func CountMessages(output string) (count uint64, engine string) {
	m := closingLine.FindStringSubmatch(output)
	if m == nil {
		return 0, ""
	}
	count, _ = strconv.ParseUint(m[1], 10, 64)
	return count, m[2]
}
