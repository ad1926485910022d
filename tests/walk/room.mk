# SPDX-License-Identifier: MIT
# The pages that people type from are typed: in docs/walks from top to bottom,
# and commands.tbl says for each other command which test does it.

CHECK_SUITES += commands
suite_commands = $(GO) test -count=1 -json -run 'TestCommands|TestMatch' ./tests/walk
suite_commands_kind = go

walk_run = $(GO) test -count=1 -json ./tests/walk

TEST_SUITES += walk
suite_walk = BUILD=$(abspath $(B)) $(walk_run) -run '^(TestWorker|TestOmniRPC|TestMPI|TestReadme|TestTrace|TestChosenNodes|TestMeasuring)$$'
suite_walk_kind = go
suite_walk_needs = $(B)/bin/skep $(B)/bin/bee $(B)/lib/libskepworker.a \
	$(B)/lib/libskeprpc.a $(B)/lib/libo2g-fi.so $(B)/mpi/ready $(windows_kit)

TEST_SUITES += walk-wine
suite_walk-wine = BUILD=$(abspath $(B)) WINEPREFIX=$(abspath $(B)/wine-walk) \
	$(STEADY) $(walk_run) -run '^TestWindowsPCs$$'
suite_walk-wine_kind = go
suite_walk-wine_needs = $(B)/bin/skep $(B)/bin/skep.exe $(B)/bin/bee.exe \
	$(B)/lib/libskepworker.a $(B)/lib/libskeprpc.a $(call wine_prefix,walk)
