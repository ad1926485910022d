# SPDX-License-Identifier: MIT
# What a newcomer does, with the real binaries: a hub, agents on Linux and
# under Wine, programs on both, and what goes wrong.

JOURNEY := $(B)/tool/journey
$(JOURNEY): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/journey

# Peers one revision and two revisions behind.
skep_former := $(B)/test/journey/skep-former
skep_old := $(B)/test/journey/skep-old
$(skep_former) $(skep_old): $(B)/test/journey/skep-%: FORCE | $(B)/bin/skep
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -tags skep_$*_peer -o $@ ./cmd/skep

journey_programs := $(addprefix $(CONF)/,glibc/hello musl/exits)
journey_needs := $(JOURNEY) $(B)/bin/skep $(journey_programs)

CHECK_SUITES += journey-linux
suite_journey-linux = $(JOURNEY) -on linux -former $(skep_former) -old $(skep_old)
suite_journey-linux_needs = $(journey_needs) $(skep_former) $(skep_old)

TEST_SUITES += journey-wine
suite_journey-wine = $(STEADY) $(JOURNEY) -on wine
suite_journey-wine_needs = $(journey_needs) $(B)/bin/skep.exe \
	$(B)/bin/bee.exe $(call wine_prefix,journey)
suite_journey-wine_deadline = 600
