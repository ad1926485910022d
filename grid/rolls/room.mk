# SPDX-License-Identifier: MIT
CHECK_SUITES += rolls
suite_rolls = $(GO) test -count=1 -json ./grid/rolls
suite_rolls_kind = go

MUTANTS += grid/rolls
mutants_grid/rolls = rolls
