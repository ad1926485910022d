# SPDX-License-Identifier: MIT
# What several rooms link: each compiles it with its own flags.

$(B)/test/base/sha256: $(B)/obj/san/base/test/sha256_test.o \
		$(B)/obj/san-free/base/sha256.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^
CHECK_SUITES += base-sha256
suite_base-sha256 = $(B)/test/base/sha256
suite_base-sha256_needs = $(B)/test/base/sha256
