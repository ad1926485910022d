# SPDX-License-Identifier: MIT
# The lab: kernels, their modules, and machines that run them.

KMODS += trivial planted
kmod_trivial = tests/vm/kmod/trivial
kmod_planted = tests/vm/kmod/planted

CHECK_SUITES += lab-unit
suite_lab-unit = $(GO) test -count=1 -json ./lab/... ./tests/vmtest/...
suite_lab-unit_kind = go

TEST_SUITES += kmod
suite_kmod = sh tests/vm/kmod/check.sh $(B) $(KMOD_SERIES)
suite_kmod_needs = kmod

MUTANTS += lab
mutants_lab = lab-unit count-tally
# Process 1 of a machine: mounts, interfaces and the steps of its start. They
# change the computer that they run on, so vm-lab holds them, in a machine.
mutants_without_lab = lab/guest/main.go lab/guest/net.go lab/guest/root.go \
	lab/guest/steps.go
