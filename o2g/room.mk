# SPDX-License-Identifier: MIT
# O2G. The core is pure and freestanding; every engine links all of it.

O2G_CORE_SRC := $(sort $(wildcard o2g/core/*.c))
o2g_core_san := $(O2G_CORE_SRC:%.c=$(B)/obj/san-free/%.o)
o2g_core_gcc := $(O2G_CORE_SRC:%.c=$(B)/obj/gcc-free/%.o)
o2g_dir := $(B)/test/o2g

o2g_core_test := $(patsubst %.c,$(B)/obj/san/%.o,\
	$(sort $(wildcard o2g/core/test/*.c)))

$(o2g_dir)/core: $(o2g_core_test) $(o2g_core_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += o2g-core
suite_o2g-core = $(o2g_dir)/core
suite_o2g-core_needs = $(o2g_dir)/core

# Not under sanitizers: its coroutines have stacks of their own.
$(o2g_dir)/order: $(B)/obj/gcc/o2g/core/test/order/model.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^

CHECK_SUITES += o2g-core-order
suite_o2g-core-order = $(o2g_dir)/order
suite_o2g-core-order_needs = $(o2g_dir)/order
