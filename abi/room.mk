# SPDX-License-Identifier: MIT
# libabi.a, once for each compiler: one relocatable object, in which calls that
# the compiler makes to memcpy and its brothers go to abi_mem*, so that no
# libc's vector versions run while the guest's vector registers are live.

ABI_SRC := $(sort $(wildcard $(addprefix abi/,$(addsuffix /*.c,\
	fs lib mm net poll proc signal thread time))))
ABI_GEN := $(B)/gen/abi/sys.h $(B)/gen/abi/calls.inc $(B)/gen/abi/numbers.h
GENERATED += $(ABI_GEN)

ABI_LIBS := $(B)/lib/gcc/libabi.a $(B)/lib/clang/libabi.a \
	$(B)/lib/mingw/libabi.a
PROGRAMS += $(ABI_LIBS)

$(B)/gen/abi/sys.h: abi/syscalls.tbl abi/gen-syscalls.sh
	$(call say,GEN)
	$(Q)sh abi/gen-syscalls.sh $< $(@D)
	$(Q)touch $(ABI_GEN)
$(B)/gen/abi/calls.inc $(B)/gen/abi/numbers.h: $(B)/gen/abi/sys.h

# $(call abi_objects,toolchain)
abi_objects = $(ABI_SRC:%.c=$(B)/obj/$(1)/%.o)
$(foreach t,gcc-free clang-free mingw-free san-free,\
	$(eval $(call abi_objects,$(t)): | $(ABI_GEN)))

MINGW_OBJCOPY := x86_64-w64-mingw32-objcopy
MINGW_AR := x86_64-w64-mingw32-ar
MINGW_NM := x86_64-w64-mingw32-nm
abi_renames := $(foreach f,memcpy memmove memset memcmp,\
	--redefine-sym $(f)=abi_$(f))

# $(1): toolchain, $(2): compiler, $(3): objcopy, $(4): ar
define abi_library
$(B)/lib/$(1)/libabi.a: $(call abi_objects,$(1)-free)
	$$(call say,AR)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) -nostdlib -r -o $$@.$$$$$$$$.o $(call abi_objects,$(1)-free) && \
	$(3) $(abi_renames) $$@.$$$$$$$$.o $$@.$$$$$$$$.renamed.o && \
	$(2) -nostdlib -r -o $$(@D)/abi.o $$@.$$$$$$$$.renamed.o && \
	rm -f $$@ $$@.$$$$$$$$.o $$@.$$$$$$$$.renamed.o && \
	$(4) rcs $$@ $$(@D)/abi.o
endef
$(eval $(call abi_library,gcc,$(CC),objcopy,ar))
$(eval $(call abi_library,clang,$(CLANG),objcopy,ar))
$(eval $(call abi_library,mingw,$(MINGW),$(MINGW_OBJCOPY),$(MINGW_AR)))

# Suites: each abi/test/X_test.c is the suite abi-X, all of abi under
# sanitizers and the host for tests below it.
ABI_TESTS := $(patsubst abi/test/%_test.c,%,$(wildcard abi/test/*_test.c))
abi_fake = $(B)/obj/$(1)/abi/test/host_fake.o $(addprefix \
	$(B)/obj/$(1)/abi/linux/,stat.o file.o path.o root.o)
abi_san := $(call abi_objects,san-free) $(call abi_fake,san)
$(foreach t,$(wildcard abi/test/*.c),\
	$(eval $(t:%.c=$(B)/obj/san/%.o) $(t:%.c=$(B)/obj/gcc/%.o): | $(ABI_GEN)))

define abi_suite
$(B)/test/abi/$(1): $(B)/obj/san/abi/test/$(1)_test.o $(abi_san)
	$$(call say,LINK)
	$(Q)mkdir -p $$(@D)
	$(Q)$(OBJECT_SAN) -o $$@ $$^ -lpthread -lm
CHECK_SUITES += abi-$(1)
suite_abi-$(1) = $(B)/test/abi/$(1)
suite_abi-$(1)_needs = $(B)/test/abi/$(1)
endef
$(foreach t,$(ABI_TESTS),$(eval $(call abi_suite,$(t))))

CHECK_SUITES += abi-symbols
suite_abi-symbols = sh abi/test/symbols.sh $(B)/lib $(MINGW_NM)
suite_abi-symbols_needs = $(ABI_LIBS)

# What a call costs, without any substrate.
BENCHES += abi-call
bench_abi-call = $(B)/bench/abi-call
bench_abi-call_needs = $(B)/bench/abi-call
$(B)/bench/abi-call: $(B)/obj/gcc/abi/test/call_bench.o \
		$(call abi_fake,gcc) $(B)/lib/gcc/libabi.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^ -lpthread

# The ELF planner against hostile files; the corpus is made by the test.
FUZZERS += abi-elf
fuzz_abi-elf_dir := $(B)/fuzz/abi-elf.corpus
fuzz_abi-elf = $(B)/fuzz/abi-elf $(fuzz_abi-elf_dir)
fuzz_abi-elf_needs = $(B)/fuzz/abi-elf $(fuzz_abi-elf_dir)
$(B)/fuzz/abi-elf: tests/fuzz/elf.c abi/proc/elf.c abi/lib/mem.c abi/include/elf.h abi/include/abi.h
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -mgeneral-regs-only -nostdinc,$(CFLAGS_FREE)) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)
$(fuzz_abi-elf_dir): $(B)/test/abi/elf
	$(Q)mkdir -p $@
	$(Q)$(B)/test/abi/elf --corpus $@

# What execve passes on against those who read it outside of abi.
FUZZERS += abi-exec
fuzz_abi-exec = $(B)/fuzz/abi-exec -max_len=256
fuzz_abi-exec_needs = $(B)/fuzz/abi-exec
$(B)/fuzz/abi-exec: abi/test/fuzz/exec.c abi/proc/record.c abi/lib/mem.c \
		$(wildcard abi/test/record.h abi/*/*.h include/skep/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) $(WARN) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)

MUTANTS += abi
mutants_abi = abi-*
