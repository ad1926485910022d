# SPDX-License-Identifier: MIT
CHECK_SUITES += hub
suite_hub = $(GO) test -count=1 -json ./grid/hub
suite_hub_kind = go

MUTANTS += grid/hub
mutants_grid/hub = hub
