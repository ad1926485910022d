# SPDX-License-Identifier: MIT
# The runner and its reader of TAP test themselves first: what is said about the
# others rests on them.

CHECK_SUITES += runner style

suite_runner = $(GO) test -count=1 -json ./internal/load ./tests/tap ./tests/run ./tests/style \
	./tests/watch ./tests/mpi/ranks ./tests/scan ./tests/wine/wineserver
suite_runner_kind = go
suite_runner_alone = yes

STYLE := $(B)/tool/style
suite_style = $(STYLE)
suite_style_needs = $(STYLE) $(GENERATED)

$(STYLE): FORCE
	$(Q)mkdir -p $(B)/tool
	$(Q)$(GO) build -o $@ ./tests/style

MUTANTS += tests/run
mutants_tests/run = runner
