# SPDX-License-Identifier: MIT
CHECK_SUITES += sched
suite_sched = $(GO) test -count=1 -json ./grid/sched
suite_sched_kind = go

MUTANTS += grid/sched
mutants_grid/sched = sched
