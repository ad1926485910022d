# SPDX-License-Identifier: MIT
# The builder of kernel updates: source, assembly, images, modules, packages.

CHECK_SUITES += update
suite_update = $(GO) test -count=1 -json -skip Sabotage ./dynamos/update/... \
	./tests/update/...
suite_update_kind = go

# Its kernel is fetched and its source prepared once, for all tests. Before a release 12 more
# files are compiled, and a package is built twice.
update_sabotage = SKEP_SABOTAGE_KERNEL=6.1.176-1 $(GO) test -count=1 -json -run Sabotage ./dynamos/update
TEST_SUITES += update-sabotage
suite_update-sabotage = $(update_sabotage) -skip 'SabotagedClasses|SabotagedReleases|MachinesBuildAlike'
suite_update-sabotage_kind = go
suite_update-sabotage_deadline = 1200
FULL_SUITES += update-sabotage-all
suite_update-sabotage-all = $(update_sabotage)
suite_update-sabotage-all_kind = go
suite_update-sabotage-all_deadline = 1200

# A second machine that prepares the source for itself, which takes minutes and 3 GB.
SOAKS += update
soak_update = SKEP_SABOTAGE_ALONE=1 SKEP_SABOTAGE_KERNEL=6.1.176-1 $(GO) test \
	-count=1 -v -timeout 40m -run SabotageFreeMachines ./dynamos/update

# Go's cache answers for the packages that a mutant is not part of.
MUTANTS_SUITES += update-mutants
suite_update-mutants = $(GO) test -json -skip Sabotage \
	./dynamos/update/... ./tests/update/...
suite_update-mutants_kind = go
suite_update-mutants_deadline = 600
MUTANTS += dynamos/update
mutants_dynamos/update = update-mutants

# How long a machine takes to load an update, in a guest, and a roll over 1,000
# simulated machines with these times and with the paper's.
BENCHES += update-fleet
bench_update-fleet = $(BENCH_RUN) update-cycle && \
	SKEP_CYCLES=$(abspath $(B))/bench/update-cycles $(GO) test -run '^$$' \
	-bench Fleet -benchtime 1x ./grid/rolls
bench_update-fleet_needs = $(BENCH_RUN) $(B)/bin/skep $(B)/bin/skep-guest \
	$(call update_of,6.1.176-1,arp) \
	$(call dynamos_ko,6.1.176-1,dynamos) $(B)/kernel/6.1.176-1/release
