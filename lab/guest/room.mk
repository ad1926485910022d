# SPDX-License-Identifier: MIT
# Process 1 of a lab's machine; Go decides what is stale.

$(B)/bin/skep-guest: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -ldflags '-s -w' -o $@ ./lab/guest

PROGRAMS += $(B)/bin/skep-guest
