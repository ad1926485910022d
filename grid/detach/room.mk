# SPDX-License-Identifier: MIT
CHECK_SUITES += detach
suite_detach = $(GO) test -count=1 -json ./grid/detach
suite_detach_kind = go
MUTANTS += grid/detach
mutants_grid/detach = detach
