# SPDX-License-Identifier: MIT
# The only Makefile. Each room has a room.mk, which appends to the lists below;
# mk/targets.mk uses these lists.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

# The lists. A room defines for each suite X: suite_X (one line, a command that
# prints TAP), suite_X_needs (files to build first), and optionally
# suite_X_deadline (seconds), suite_X_kind (tap, go or exit), suite_X_alone
# (yes: nothing runs in parallel with it). For each benchmark, fuzzer and soak X:
# bench_X, bench_X_needs, and so on. Only `make test-full` runs FULL_SUITES, one
# after the other.
PROGRAMS :=
CHECK_SUITES :=
TEST_SUITES :=
VM_SUITES :=
FULL_SUITES :=
BENCHES :=
FUZZERS :=
GO_FUZZERS :=
SOAKS :=
# Folders that `make mutants` mutates: see mk/mutants.mk.
MUTANTS :=
# Targets that take long or wait for the network. A build starts with them.
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
