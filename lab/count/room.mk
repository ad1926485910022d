# SPDX-License-Identifier: MIT
# The instruction counter: a plugin for QEMU, and its tests without one.
# COUNT_PLUGIN_API is the revision of QEMU's plugin interface to build for.

COUNT_PLUGIN_API := 1
COUNT_SRC := lab/count/count.c lab/count/tally.c
COUNT_PLUGIN := $(B)/lib/skep-count.so
count_headers := include/skep/mark.h $(wildcard lab/count/*.h)
count_test := lab/count/test/plugin_test.c

PROGRAMS += $(COUNT_PLUGIN)

$(COUNT_PLUGIN): $(COUNT_SRC) $(count_headers)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -DCOUNT_PLUGIN_API=$(COUNT_PLUGIN_API) -fPIC -shared \
		-fvisibility=hidden -o $@ $(COUNT_SRC) -lpthread

CHECK_SUITES += count-tally count-plugin count-plugin-v4
suite_count-tally = $(B)/test/count/tally
suite_count-tally_needs = $(B)/test/count/tally
suite_count-plugin = $(B)/test/count/plugin-1
suite_count-plugin_needs = $(B)/test/count/plugin-1
suite_count-plugin-v4 = $(B)/test/count/plugin-4
suite_count-plugin-v4_needs = $(B)/test/count/plugin-4

$(B)/test/count/tally: $(B)/obj/san/lab/count/test/tally_test.o \
		$(B)/obj/san/lab/count/tally.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

$(B)/test/count/plugin-%: $(count_test) $(COUNT_SRC) $(count_headers)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -DCOUNT_PLUGIN_API=$* -o $@ $(filter %.c,$^) -lpthread

# The program that a counted guest runs, at addresses that nothing else uses.
count_guest := $(B)/test/vm/count
$(count_guest): $(B)/obj/gcc/tests/vm/guest/count.o $(B)/obj/gcc/tests/vm/guest/loops.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -no-pie -Wl,-Ttext-segment=0x10000000 -o $@ $^

VM_SUITES += vm-count
suite_vm-count = $(call vm_suite,Count)
suite_vm-count_kind = go
suite_vm-count_deadline = 1260
suite_vm-count_needs = $(vm_needs) $(COUNT_PLUGIN) $(count_guest) $(vm_image) \
	$(B)/test/vm/lend_idle
