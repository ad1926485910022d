# SPDX-License-Identifier: MIT
# Random system calls against bee on Linux, behind the guard.

fuzz_calls := $(B)/test/fuzz/calls
$(fuzz_calls): tests/fuzz/calls.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -std=gnu11 -O2 -g -pthread $(WARN) -o $@ $<

TEST_SUITES += bee-calls
suite_bee-calls = sh tests/fuzz/calls.sh $(B)
suite_bee-calls_needs = $(B)/bin/bee $(B)/bin/bee-guard $(fuzz_calls)

# All fuzzers in Go: tests/run TestFuzzersAreListed.
GO_FUZZERS += \
	cmd/skep.FuzzLedger \
	dynamos/update/asm.FuzzParse \
	dynamos/update/image.FuzzGate \
	dynamos/update/image.FuzzRead \
	dynamos/update/image.FuzzSymbols \
	dynamos/update/image.FuzzTypes \
	dynamos/update/link.FuzzRewrite \
	dynamos/update/pack.FuzzRead \
	dynamos/update/source.FuzzPatch \
	dynamos/update/trust.FuzzParseSigned \
	grid/hosts.FuzzRead \
	grid/hub.FuzzMetrics \
	grid/hub.FuzzPage \
	grid/hub.FuzzReadBackup \
	grid/idl.FuzzExpanded \
	grid/idl.FuzzParse \
	grid/label.FuzzSelector \
	grid/policy.FuzzParse \
	grid/rolls.FuzzHost \
	grid/rolls.FuzzReport \
	internal/report.FuzzRead \
	internal/uapi.FuzzParseFrame \
	internal/uapi.FuzzParseManifest \
	lab.FuzzClosure \
	lab.FuzzCounts \
	lab.FuzzSymbols \
	lab.FuzzUnpackImage \
	lab/wire.FuzzGuard \
	lab/wire.FuzzRead \
	shimos/ninep.FuzzServer \
	shimos/part.FuzzConsole \
	shimos/part.FuzzDisk \
	shimos/part.FuzzHolder \
	shimos/part.FuzzKernelRelease \
	shimos/part.FuzzNet \
	shimos/part.FuzzQueue \
	tests/tap.FuzzReader \
	tests/vmtest/report.FuzzScan
