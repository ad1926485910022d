# SPDX-License-Identifier: MIT
CHECK_SUITES += policy
suite_policy = $(GO) test -count=1 -json ./grid/policy/...
suite_policy_kind = go

MUTANTS += grid/policy
mutants_grid/policy = policy
