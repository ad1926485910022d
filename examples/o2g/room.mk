# SPDX-License-Identifier: MIT
# The ring of docs/libo2g.md, linked with libo2g like any other program.

$(B)/examples/ring: examples/o2g/ring.c $(B)/lib/libo2g.so o2g/lib/o2g.h
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -Io2g/lib -o $@ $< \
		-L$(B)/lib -lo2g
CHECK_SUITES += o2g-ring
suite_o2g-ring = LD_LIBRARY_PATH=$(B)/lib sh examples/o2g/ring.sh \
	$(B)/examples/ring
suite_o2g-ring_needs = $(B)/examples/ring
