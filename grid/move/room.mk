# SPDX-License-Identifier: MIT
# Where a movable program runs: a pure state machine.

CHECK_SUITES += move
suite_move = $(GO) test -count=1 -json ./grid/move
suite_move_kind = go
MUTANTS += grid/move
mutants_grid/move = move
