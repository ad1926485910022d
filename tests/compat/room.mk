# SPDX-License-Identifier: MIT
# Programs in the style of OmniRPC, one per feature, through a whole grid: on Linux,
# and with workers under bee in Wine.
compat_run = $(GO) test -count=1 -json ./tests/compat
CHECK_SUITES += compat
suite_compat = BUILD=$(abspath $(B)) $(compat_run) -run '^(TestPrograms|TestFailures|TestNesting|TestHosts|TestBatch|TestTools|TestDataMovesOnce|TestDataMemory|TestObjectsAreListed|TestMissingFunctions)$$'
suite_compat_kind = go
suite_compat_needs = $(B)/bin/skep $(B)/lib/libskepworker.a \
	$(B)/lib/libskeprpc.a $(B)/lib/libgridrpc.a $(omrpc_tools)

# Workers that are MPI jobs: needs MPICH and Open MPI.
TEST_SUITES += ranks
suite_ranks = BUILD=$(abspath $(B)) $(compat_run) -run '^TestRanks'
suite_ranks_kind = go
suite_ranks_needs = $(suite_compat_needs) $(B)/bin/bee
suite_ranks_deadline = 600

TEST_SUITES += compat-wine
suite_compat-wine = BUILD=$(abspath $(B)) WINEPREFIX=$(abspath $(B)/wine-compat) \
	$(STEADY) $(compat_run) -run '^TestWine$$'
suite_compat-wine_kind = go
suite_compat-wine_needs = $(suite_compat_needs) $(B)/bin/skep.exe \
	$(B)/bin/bee.exe $(call wine_prefix,compat)

CHECK_SUITES += examples
suite_examples = BUILD=$(abspath $(B)) $(compat_run) -run '^TestExamples$$'
suite_examples_kind = go
suite_examples_needs = $(suite_compat_needs)
