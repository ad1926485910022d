# SPDX-License-Identifier: MIT
# The libfabric provider: one file that brings libo2g along and shows libfabric
# its entry alone. libfabric unloads providers at exit, maybe before their
# threads are gone; hence nodelete.
# A message passes through some 60 functions of three folders. Optimized
# together, they take a seventh less instructions for it.

O2G_FI_SRC := $(sort $(wildcard o2g/prov/*.c))
o2g_fi_obj := $(patsubst %.c,$(B)/obj/o2g-fi/%.o,\
	$(O2G_FI_SRC) $(O2G_LIB_SRC) $(sort $(wildcard o2g/core/*.c)))
$(B)/obj/o2g-fi/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O2G_LIB_FLAGS) -O3 -flto $(DEPS) -c -o $@ $<

o2g_fi_link = -shared -pthread -Wl,--version-script=o2g/prov/exports.map \
	-Wl,--exclude-libs,ALL -Wl,-z,now -Wl,-z,nodelete

PROGRAMS += $(B)/lib/libo2g-fi.so
$(B)/lib/libo2g-fi.so: $(o2g_fi_obj) o2g/prov/exports.map
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O3 -flto -flto-partition=one -g $(MAP) $(o2g_fi_link) \
		-Wl,-z,defs -o $@ $(o2g_fi_obj)

# The same under sanitizers, for a test program that is too.
o2g_fi_san := $(patsubst %.c,$(B)/obj/o2g-fi-san/%.o,\
	$(O2G_FI_SRC) $(O2G_LIB_SRC) $(sort $(wildcard o2g/core/*.c)))
$(B)/obj/o2g-fi-san/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_HOST) -fPIC $(SAN) $(DEPS) -c -o $@ $<
$(B)/test/o2g/fi-san/libo2g-fi.so: $(o2g_fi_san) o2g/prov/exports.map
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) $(o2g_fi_link) -o $@ $(o2g_fi_san)

O2G_FI_TEST_SRC := $(sort $(wildcard o2g/prov/test/*.c))
$(B)/test/o2g/fi: $(O2G_FI_TEST_SRC:%.c=$(B)/obj/san/%.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -pthread -o $@ $^ -lfabric

# What is installed, and what the sanitizers watch. libfabric itself keeps
# memory until the end.
CHECK_SUITES += o2g-fi o2g-fi-san o2g-fi-slab
suite_o2g-fi = ASAN_OPTIONS=detect_leaks=0 $(B)/test/o2g/fi $(B)/lib
suite_o2g-fi_needs = $(B)/test/o2g/fi $(B)/lib/libo2g-fi.so
suite_o2g-fi-san = ASAN_OPTIONS=detect_leaks=0 $(B)/test/o2g/fi \
	$(B)/test/o2g/fi-san
suite_o2g-fi-san_needs = $(B)/test/o2g/fi $(B)/test/o2g/fi-san/libo2g-fi.so
suite_o2g-fi-slab = env SKEP_O2G_ENGINE=user-slab $(suite_o2g-fi-san)
suite_o2g-fi-slab_needs = $(suite_o2g-fi-san_needs)

# Regions whose registration fails at one of several endpoints.
$(B)/test/o2g/regions: $(B)/obj/san/o2g/prov/test/alone/regions.o \
		$(B)/obj/san/o2g/prov/memory.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -pthread -o $@ $^
CHECK_SUITES += o2g-regions
suite_o2g-regions = $(B)/test/o2g/regions
suite_o2g-regions_needs = $(B)/test/o2g/regions

CHECK_SUITES += o2g-pingpong
suite_o2g-pingpong = o2g/prov/test/pingpong.sh $(B)/lib
suite_o2g-pingpong_needs = $(B)/lib/libo2g-fi.so

MUTANTS += o2g/prov
mutants_o2g/prov = o2g-regions o2g-fi-san o2g-fi-slab
