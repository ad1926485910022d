# SPDX-License-Identifier: MIT
# The one door. Rooms describe themselves in their room.mk; the lists they
# append to are named here, what is done with them is in mk/targets.mk.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# What rooms append to. For each suite X: suite_X (one line, a command that
# prints TAP), suite_X_needs (files to build first), and if wanted
# suite_X_deadline (seconds), suite_X_kind (tap, go or exit), suite_X_beside
# (yes or no: it may run in parallel with suites that boot machines). For each
# bench, fuzzer and soak X: bench_X, bench_X_needs, and so on. FULL_SUITES are
# suites that only make test-full runs.
PROGRAMS :=
CHECK_SUITES :=
TEST_SUITES :=
VM_SUITES :=
FULL_SUITES :=
BENCHES :=
FUZZERS :=
SOAKS :=
# Folders whose code is mutated: see mk/mutants.mk.
MUTANTS :=
# Targets that take long or wait for the network: a build begins with them.
SLOW :=
# Kernel modules, and the kernels that they are built for: see mk/kmod.mk.
KMODS :=
KMODS_ASIDE :=
KMOD_SERIES := 6.1 6.12

include mk/tools.mk
include $(sort $(wildcard */room.mk */*/room.mk))
include mk/kmod.mk
include mk/debug.mk
include mk/targets.mk
include mk/mutants.mk
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
