# SPDX-License-Identifier: MIT
CHECK_SUITES += hub
suite_hub = $(GO) test -count=1 -json ./grid/hub
suite_hub_kind = go

# One test that fails says enough about a mutant.
MUTANTS_SUITES += hub-failfast
suite_hub-failfast = $(suite_hub) -failfast
suite_hub-failfast_kind = go
MUTANTS += grid/hub
mutants_grid/hub = hub-failfast
