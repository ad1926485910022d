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
