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

# The cipher beside libcrypto's: the code for the widest vector registers that
# this processor has, that for all processors, and that for kernels, which use
# none.
o2g_aead := $(addprefix o2g/core/,aead.c chacha.c poly.c record.c)
$(o2g_dir)/aead: $(B)/obj/san/o2g/core/test/aead/aead.o \
		$(o2g_aead:%.c=$(B)/obj/san-free/%.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^ -lcrypto
$(o2g_dir)/aead-general: $(B)/obj/gcc/o2g/core/test/aead/aead.o \
		$(o2g_aead:%.c=$(B)/obj/gcc-free/%.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^ -lcrypto

$(o2g_dir)/aead-narrow: $(B)/obj/gcc/o2g/core/test/aead/aead.o \
		$(patsubst %.c,$(B)/obj/gcc-free/%.o,\
		$(filter-out %/chacha.c,$(o2g_aead))) \
		o2g/core/chacha.c o2g/core/chacha.h
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -DO2G_CHACHA_NARROW -o $@ $(filter %.o %.c,$^) -lcrypto

CHECK_SUITES += o2g-aead o2g-aead-narrow o2g-aead-general
suite_o2g-aead-narrow = $(o2g_dir)/aead-narrow
suite_o2g-aead-narrow_needs = $(o2g_dir)/aead-narrow
suite_o2g-aead = $(o2g_dir)/aead
suite_o2g-aead_needs = $(o2g_dir)/aead
suite_o2g-aead-general = $(o2g_dir)/aead-general
suite_o2g-aead-general_needs = $(o2g_dir)/aead-general

o2g_fuzz = $(CLANG) -std=gnu11 -O1 -g $(INCLUDE) $(WARN) \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
o2g_fuzz_src := o2g/core/test/fuzz/stand.c $(O2G_CORE_SRC)
o2g_fuzz_head := $(wildcard o2g/core/*.h o2g/core/test/fuzz/*.h)
$(B)/fuzz/o2g-frames: o2g/core/test/fuzz/frames.c $(o2g_fuzz_src) \
		$(o2g_fuzz_head)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(o2g_fuzz) -o $@ $(filter %.c,$^)
$(B)/fuzz/o2g-ring: o2g/core/test/fuzz/ring.c $(o2g_fuzz_src) \
		$(o2g_fuzz_head)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(o2g_fuzz) -include o2g/core/test/fuzz/unsteady.h -o $@ \
		$(filter %.c,$^)

$(B)/fuzz/o2g-records: o2g/core/test/fuzz/records.c $(o2g_aead) \
		$(o2g_fuzz_head)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(o2g_fuzz) -o $@ $(filter %.c,$^)

FUZZERS += o2g-frames o2g-ring o2g-records
fuzz_o2g-records = $(B)/fuzz/o2g-records -max_len=4096
fuzz_o2g-records_needs = $(B)/fuzz/o2g-records
fuzz_o2g-frames = $(B)/fuzz/o2g-frames -max_len=4096
fuzz_o2g-frames_needs = $(B)/fuzz/o2g-frames
fuzz_o2g-ring = $(B)/fuzz/o2g-ring -max_len=4096
fuzz_o2g-ring_needs = $(B)/fuzz/o2g-ring

# The kernel engine.
KMODS += o2g
kmod_o2g = o2g/kmod
kmod_o2g_with = o2g/core base/errno.h include/skep

MUTANTS += o2g/core
# Those that hold the core itself: a mutant takes seconds.
mutants_o2g/core = o2g-core-order o2g-aead o2g-aead-narrow o2g-core
