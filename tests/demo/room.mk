# SPDX-License-Identifier: MIT
# The main job, `make demo`, as a test too, with a smaller problem.

DEMO := $(B)/tool/demo
$(DEMO): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/demo

demo_needs = $(DEMO) $(B)/bin/skep $(B)/bin/skep.exe $(B)/bin/bee.exe \
	$(B)/bin/eigen $(B)/bin/eigen.rex $(WINE_PRNG)
demo_run := $(STEADY) $(DEMO)

TEST_SUITES += demo
suite_demo = DEMO=$(CURDIR)/$(DEMO) CHEAT=$(CURDIR)/$(B)/test/wine/cheat.exe \
	$(STEADY) $(GO) test -count=1 -json ./tests/demo
suite_demo_deadline = 180
suite_demo_kind = go
suite_demo_needs = $(demo_needs) $(B)/test/wine/cheat.exe

# An elongated box: much data for a node, and little fill in its factors.
FULL_SUITES += demo-large
suite_demo-large_kind = exit
suite_demo-large_deadline = 3600
suite_demo-large = $(STEADY) $(DEMO) -soak -- --elements 12,12,1060
suite_demo-large_needs = $(demo_needs)
