# SPDX-License-Identifier: MIT
CHECK_SUITES += sched
suite_sched = $(GO) test -count=1 -json ./grid/sched ./grid/label
suite_sched_kind = go

BENCHES += grid-sched
bench_grid-sched = $(GO) test -run '^$$' -bench Turn -benchtime 20000x ./grid/sched

MUTANTS += grid/sched
mutants_grid/sched = sched
