# SPDX-License-Identifier: MIT
# What `make mutants` does, shown on a planted room.

CHECK_SUITES += mutants
suite_mutants = $(GO) test -count=1 -json ./tests/mutants/...
suite_mutants_kind = go
suite_mutants_deadline = 600
