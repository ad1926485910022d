// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"strings"

	"skep/tests/tap"
)

// A leftOut is tests that are not run on an MPI, for a cause outside O2G.
type leftOut struct {
	mpi    string
	ranks  int // 0: any number
	module string
	tests  []string // none: all of the module
	// onTCP: the MPI's own TCP fails each of them six times of six, which -prove tries.
	// Otherwise they pass there, since the MPI's TCP does not use libfabric.
	onTCP bool
	cause string
}

// leftOuts are all of them. Nothing else is excused but what the MPI's own TCP fails each
// time in the same run.
var leftOuts = []leftOut{
	{"mpich", 2, "test_comm_topo", []string{"TestTopoWorld.testDistgraphcomm",
		"TestTopoWorldDup.testDistgraphcomm"}, true,
		"it probes MPI_ANY_SOURCE, then receives from MPI_ANY_SOURCE: a message to itself, which " +
			"no network carries, can take the place of the probed one and be shorter"},
	{"openmpi", 0, "test_ulfm", []string{"TestULFMInter.testRevoke", "TestULFMSelf.testRevoke",
		"TestULFMWorld.testRevoke"}, false,
		"its layer for libfabric does not revoke communicators; fails with libfabric's tcp as well"},
	{"debian", 0, "test_cco_vec", []string{"TestCCOVecWorld.testAlltoallwBottom",
		"TestCCOVecWorldDup.testAlltoallwBottom"}, false,
		"its layer for libfabric sends from address 0 for MPI_BOTTOM: SIGSEGV with libfabric's " +
			"tcp, while O2G refuses the send and the collective never ends"},
	{"debian", 0, "test_p2p_buf", []string{"TestP2PBufWorld.testProbeCancel",
		"TestP2PBufWorldDup.testProbeCancel"}, false,
		"its layer for libfabric crashes when a synchronous send is cancelled; SIGSEGV with libfabric's tcp as well"},
	{"debian", 0, "test_p2p_obj", nil, false,
		"its layer for libfabric does not complete some synchronous sends, with libfabric's tcp as well"},
	{"debian", 0, "test_util_pkl5", nil, false,
		"its layer for libfabric does not complete some synchronous sends, with libfabric's tcp as well"},
}

// covers reports whether l is about a job of ranks on mpi.
func (l *leftOut) covers(mpi string, ranks int) bool {
	return l.mpi == mpi && (l.ranks == 0 || l.ranks == ranks)
}

// names returns the tests as suite.py names them.
func (l *leftOut) names() []string {
	var names []string
	for _, test := range l.tests {
		names = append(names, l.module+"."+test)
	}
	return names
}

// text is l's line in the table.
func (l *leftOut) text() string {
	what, ranks, tcp := l.module, "", "passes on the MPI's TCP"
	if len(l.tests) > 0 {
		what = strings.Join(l.names(), ", ")
	}
	if l.ranks > 0 {
		ranks = fmt.Sprintf(", %d ranks", l.ranks)
	}
	if l.onTCP {
		tcp = "fails on the MPI's TCP each time"
	}
	return fmt.Sprintf("%s%s: %s (%s): %s", l.mpi, ranks, what, tcp, l.cause)
}

// excludedTests returns the tests of these modules that do not run.
func excludedTests(mpi string, ranks int, modules string) []string {
	var tests []string
	for m := range strings.SplitSeq(modules, ",") {
		for _, l := range leftOuts {
			if l.covers(mpi, ranks) && l.module == m {
				tests = append(tests, l.names()...)
			}
		}
	}
	return tests
}

// isUnfit reports whether no test of the module runs.
func isUnfit(mpi string, ranks int, module string) bool {
	return slices.ContainsFunc(leftOuts, func(l leftOut) bool {
		return l.covers(mpi, ranks) && l.module == module && len(l.tests) == 0
	})
}

// proveLeftOuts checks that TCP still fails the tests that are left out because it does.
func proveLeftOuts(t *tap.Report, mpi string, ranks int, run runner) {
	for _, l := range leftOuts {
		if !l.onTCP || !l.covers(mpi, ranks) {
			continue
		}
		for _, test := range l.names() {
			t.Check(failsOnTCP(test, run), "it began and passed, or did not begin: compare it again",
				"%s, %d ranks: TCP fails %s six times of six", mpi, ranks, test)
		}
	}
}
