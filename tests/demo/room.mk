# SPDX-License-Identifier: MIT
# The main job, `make demo`, as a test too, with a smaller problem.

DEMO := $(B)/tool/demo
$(DEMO): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/demo

demo_needs = $(DEMO) $(B)/bin/skep $(B)/bin/skep.exe $(B)/bin/bee.exe \
	$(B)/bin/eigen $(B)/bin/eigen.rex $(call wine_prefix,demo)
demo_run := $(STEADY) $(DEMO)

# The picture of it that README shows. If the demo fails, the old one stays.
RECORD := $(B)/tool/record
$(RECORD): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/record
record_needs = $(RECORD) $(demo_needs)
record_run = $(RECORD) -o docs/pictures/demo.svg -typed 'make demo' \
	-words 'A terminal: make demo solves one problem on a Linux and a Windows node' \
	-- $(MAKE) --no-print-directory BUILT=yes demo-run

CHECK_SUITES += picture
suite_picture = $(GO) test -count=1 -json ./tests/picture
suite_picture_kind = go

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
