# SPDX-License-Identifier: MIT
# libo2g: one shared library for programs, one archive for the provider. Both
# hide everything but o2g.h: they live inside other people's programs.

O2G_LIB_SRC := $(sort $(wildcard o2g/lib/*.c o2g/user/*.c)) base/sha256.c
O2G_LIB_FLAGS = $(CFLAGS_HOST) -fPIC -pthread -fvisibility=hidden
o2g_lib_obj := $(O2G_LIB_SRC:%.c=$(B)/obj/o2g/%.o) \
	$(patsubst %.c,$(B)/obj/o2g-free/%.o,$(sort $(wildcard o2g/core/*.c)))
o2g_lib_san := $(O2G_LIB_SRC:%.c=$(B)/obj/san/%.o) \
	$(patsubst %.c,$(B)/obj/san-free/%.o,$(sort $(wildcard o2g/core/*.c)))
o2g_lib_tsan := $(O2G_LIB_SRC:%.c=$(B)/obj/o2g-tsan/%.o) \
	$(patsubst %.c,$(B)/obj/o2g-tsan/%.o,$(sort $(wildcard o2g/core/*.c)))

$(B)/obj/o2g/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(O2G_LIB_FLAGS) $(DEPS) -c -o $@ $<
$(B)/obj/o2g-free/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_FREE) -fPIC -fvisibility=hidden $(DEPS) -c -o $@ $<
# Programs have vector registers, with which the cipher is three times as fast.
$(B)/obj/o2g-free/o2g/core/chacha.o: CFLAGS_FREE := \
	$(filter-out -mgeneral-regs-only,$(CFLAGS_FREE)) -O3
# gcc's ThreadSanitizer does not know fences; every lock here is a mutex.
$(B)/obj/o2g-tsan/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_HOST) -fsanitize=thread -Wno-tsan $(DEPS) -c -o $@ $<

PROGRAMS += $(B)/lib/libo2g.so $(B)/lib/libo2g.a
$(B)/lib/libo2g.so: $(o2g_lib_obj) o2g/lib/o2g.map o2g/lib/room.mk
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -Wl,-soname,libo2g.so.0 \
		-Wl,--version-script=o2g/lib/o2g.map -Wl,-z,defs -Wl,-z,now \
		-o $@ $(o2g_lib_obj)
	$(Q)ln -sf libo2g.so $@.0
$(B)/lib/libo2g.a: $(o2g_lib_obj)
	$(call say,AR)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

CHECK_SUITES += o2g-exports
suite_o2g-exports = sh o2g/test/exports.sh $(B)
suite_o2g-exports_needs = $(B)/lib/libo2g.so $(B)/lib/libo2g.a

CHECK_SUITES += o2g-manual
suite_o2g-manual = sh o2g/test/manual.sh

# The tests: under ASan and UBSan, and those that do not fork under
# ThreadSanitizer, which knows no threads in a child of a threaded process.
o2g_t := $(B)/test/o2g
o2g_tests := sealed hmac opening address locate try device idle access message unauthenticated death life fork trace
$(o2g_t)/%: $(B)/obj/san/o2g/test/%_test.o $(o2g_lib_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -pthread -o $@ $^
$(o2g_t)/%-tsan: $(B)/obj/o2g-tsan/o2g/test/%_test.o $(o2g_lib_tsan)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -fsanitize=thread -pthread -o $@ $^
define o2g_suite
suite_o2g-$(1) = $(o2g_t)/$(1)
suite_o2g-$(1)_needs = $(o2g_t)/$(1)
suite_o2g-$(1)-slab = env SKEP_O2G_ENGINE=user-slab \
	SKEP_O2G_UNEXPECTED=64M $(o2g_t)/$(1)
suite_o2g-$(1)-slab_needs = $(o2g_t)/$(1)
suite_o2g-$(1)-encrypted = env SKEP_O2G_ENCRYPT=yes $(o2g_t)/$(1)
suite_o2g-$(1)-encrypted_needs = $(o2g_t)/$(1)
suite_o2g-$(1)-tsan = $(o2g_t)/$(1)-tsan
suite_o2g-$(1)-tsan_needs = $(o2g_t)/$(1)-tsan
endef
$(foreach t,$(o2g_tests),$(eval $(call o2g_suite,$(t))))
CHECK_SUITES += o2g-sealed o2g-hmac o2g-opening o2g-address o2g-locate o2g-try o2g-device o2g-idle \
	o2g-access o2g-message o2g-death o2g-life o2g-fork o2g-trace
# Once more with bodies in a slab, as the kernel engine leaves them.
CHECK_SUITES += o2g-message-slab o2g-death-slab o2g-life-slab \
	o2g-fork-slab
# And once more encrypted.
CHECK_SUITES += o2g-message-encrypted o2g-death-encrypted o2g-life-encrypted \
	o2g-access-encrypted o2g-fork-encrypted
TEST_SUITES += o2g-sealed-tsan
TEST_SUITES += o2g-unauthenticated o2g-message-tsan o2g-unauthenticated-tsan

$(o2g_t)/pingpong: $(B)/obj/gcc/o2g/test/pingpong.o $(B)/lib/libo2g.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
BENCHES += o2g_pingpong
bench_o2g_pingpong := $(o2g_t)/pingpong
bench_o2g_pingpong_needs := $(o2g_t)/pingpong

FUZZERS += o2g-opening
fuzz_o2g-opening_dir := $(B)/fuzz/o2g-opening.corpus
fuzz_o2g-opening = $(B)/fuzz/o2g-opening $(fuzz_o2g-opening_dir)
fuzz_o2g-opening_needs = $(B)/fuzz/o2g-opening
$(B)/fuzz/o2g-opening: o2g/test/opening_fuzz.c base/sha256.c $(addprefix \
		o2g/lib/,opening.c hmac.c address.c error.c opening.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(fuzz_o2g-opening_dir)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)

MUTANTS += o2g/lib
mutants_o2g/lib = o2g-sealed o2g-hmac o2g-opening o2g-address o2g-locate o2g-try o2g-device \
	o2g-idle o2g-trace \
	o2g-access o2g-life o2g-fork o2g-message o2g-death
