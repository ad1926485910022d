# SPDX-License-Identifier: MIT
# Host files of OmniRPC.
CHECK_SUITES += hosts
suite_hosts = $(GO) test -count=1 -json ./grid/hosts
suite_hosts_kind = go

MUTANTS += grid/hosts
mutants_grid/hosts = hosts
