# SPDX-License-Identifier: MIT
# sms, the compute kernel: abi once more, for ring 0, and what is below it. The
# proxy is a program for Linux.

OBJECT_SMS = $(CC) $(CFLAGS_FREE) -DSKEP_GUEST_LARGE -mno-red-zone -mcmodel=kernel -fno-pic \
	-fno-pie
$(eval $(call object_rules,sms,OBJECT_SMS,CC))

SMS_KERNEL_SRC := $(sort $(wildcard sms/kernel/*.c sms/kernel/*.S))
sms_kernel := $(patsubst %,$(B)/obj/sms/%.o,$(basename $(SMS_KERNEL_SRC)))
sms_abi := $(call abi_objects,sms)
$(sms_abi) $(sms_kernel): | $(ABI_GEN)

# What the program finds of sms in its own memory; it becomes part of the image.
$(B)/lib/sms-vdso.so: sms/vdso/vdso.lds $(B)/obj/vdso/sms/vdso/clock.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)ld -s -shared -soname linux-vdso.so.1 --hash-style=both --build-id=none \
		--no-undefined -z noexecstack -z max-page-size=4096 -T $< -o $@ \
		$(filter %.o,$^)
OBJECT_VDSO = $(CC) $(CFLAGS_FREE) -fPIC
$(eval $(call object_rules,vdso,OBJECT_VDSO,CC))
$(B)/obj/sms/sms/kernel/vdso.o: $(B)/lib/sms-vdso.so

$(B)/lib/sms.elf: sms/kernel/image.lds $(sms_kernel) $(sms_abi)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)ld -r -o $@.all $(filter %.o,$^)
	$(Q)objcopy $(abi_renames) $@.all $@.o
	$(Q)ld -static --build-id=none --no-warn-rwx-segments -z noexecstack \
		-T $< -o $@ $@.o
	$(Q)rm -f $@.all $@.o
$(B)/bin/sms.image: $(B)/lib/sms.elf
	$(call say,IMAGE)
	$(Q)mkdir -p $(@D)
	$(Q)objcopy -O binary $< $@

SMS_PROXY_SRC := $(sort $(wildcard sms/proxy/*.c abi/linux/*.c))
sms_proxy := $(SMS_PROXY_SRC:%.c=$(B)/obj/gcc/%.o)
$(B)/bin/sms-proxy: $(sms_proxy) $(B)/lib/gcc/libabi.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static-pie -pthread -o $@ $^

PROGRAMS += $(B)/bin/sms.image $(B)/bin/sms-proxy

# Each side against a hostile other one, and the memory of programs. The same
# files are fuzzers: a main of their own plays fixed and random inputs.
SMS_TESTS := call reply memory family
sms_test_call := sms/proxy/call.c
sms_test_reply := sms/kernel/forward.c sms/kernel/poll.c abi/lib/mem.c
sms_test_family := sms/kernel/forward.c sms/kernel/family.c abi/lib/mem.c
sms_test_memory := sms/kernel/memory.c sms/kernel/pool.c

# $(1): test
define sms_suite
$(B)/test/sms/$(1): $(B)/obj/san/sms/test/$(1).o $(patsubst %.c,$(B)/obj/san/%.o,\
		$(sms_test_$(1)))
	$$(call say,LINK)
	$(Q)mkdir -p $$(@D)
	$(Q)$(OBJECT_SAN) -o $$@ $$^
CHECK_SUITES += sms-$(1)
suite_sms-$(1) = $(B)/test/sms/$(1)
suite_sms-$(1)_needs = $(B)/test/sms/$(1)

$(B)/fuzz/sms-$(1): sms/test/$(1).c $(sms_test_$(1)) \
		$(wildcard sms/*.h sms/*/*.h abi/*/*.h include/skep/*.h)
	$$(call say,FUZZ)
	$(Q)mkdir -p $$(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g -DSMS_FUZZ $(INCLUDE) $(WARN) \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-o $$@ $$(filter %.c,$$^)
FUZZERS += sms-$(1)
fuzz_sms-$(1) = $(B)/fuzz/sms-$(1) -max_len=8192
fuzz_sms-$(1)_needs = $(B)/fuzz/sms-$(1)
endef
$(foreach t,$(SMS_TESTS),$(eval $(call sms_suite,$(t))))

# Every order of NMIs and their reasons, every moment at which the clock page is
# written, cores that become busy while another one waits for flushes, and which
# thread a core takes; waits for handles, step by step; which descriptors are
# the proxy's own.
sms_test_flush := sms/kernel/flush.c
sms_test_queue := sms/kernel/queue.c
sms_test_own := sms/proxy/own.c
sms_test_poll := sms/kernel/poll.c abi/lib/mem.c

# $(1): test
define sms_lone_suite
$(B)/test/sms/$(1): $(B)/obj/san/sms/test/$(1).o \
		$(patsubst %.c,$(B)/obj/san/%.o,$(sms_test_$(1)))
	$$(call say,LINK)
	$(Q)mkdir -p $$(@D)
	$(Q)$(OBJECT_SAN) -o $$@ $$^
CHECK_SUITES += sms-$(1)
suite_sms-$(1) = $(B)/test/sms/$(1)
suite_sms-$(1)_needs = $(B)/test/sms/$(1)
endef
# Programs of Linux, started from what the image writes.
sms_test_helper := sms/proxy/family.c sms/proxy/helper.c sms/proxy/newborn.c \
	sms/proxy/own.c abi/proc/record.c
$(foreach t,nmi clock flush queue own poll helper,$(eval $(call sms_lone_suite,$(t))))

# What forwards calls names them.
$(B)/obj/san/sms/kernel/forward.o $(B)/obj/san/sms/test/reply.o \
		$(B)/obj/san/sms/test/poll.o \
		$(B)/fuzz/sms-reply $(B)/obj/san/sms/kernel/family.o \
		$(B)/obj/san/sms/test/family.o $(B)/obj/san/abi/proc/record.o \
		$(B)/obj/san/sms/test/helper.o \
		$(B)/fuzz/sms-family: | $(ABI_GEN)

# Programs for partitions, and what disturbs Linux meanwhile.
sms_t := $(addprefix $(B)/test/vm/sms_,hello team wreck copy quiet storm \
	events secret big crowd calls wild helpers)
$(sms_t): $(B)/test/vm/sms_%: tests/vm/guest/sms/%.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_HOST) -static -no-pie -pthread -fopenmp -o $@ $< \
		2>$@.log || { cat $@.log; exit 1; }
$(B)/test/vm/sms_musl: tests/vm/guest/sms/hello.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(MUSL) -std=gnu11 -O2 -static -o $@ $<
$(B)/test/vm/sms_go: tests/vm/guest/sms/go/main.go
	$(call say,GO)
	$(Q)mkdir -p $(@D)
	$(Q)CGO_ENABLED=0 $(GO) build -o $@ ./$(dir $<)

VM_SUITES += vm-sms
suite_vm-sms = $(call vm_suite,Sms)
suite_vm-sms_kind = go
suite_vm-sms_deadline = 1260
suite_vm-sms_needs = $(vm_needs) $(vm_image) $(B)/test/vm/lend_noise $(B)/test/vm/lend_hunt \
	$(B)/test/vm/lend_idle $(B)/test/vm/lend_stray \
	$(sms_t) $(B)/test/vm/sms_musl $(B)/test/vm/sms_go \
	$(B)/bin/skep $(B)/bin/sms.image $(B)/bin/sms-proxy $(B)/lib/skep-count.so

# What a forwarded call costs, in instructions, on each kernel.
BENCHES += sms_call
bench_sms_call = $(GO) test -count=1 -v -run '^TestSms$$/^6/^forwarding$$' \
	./tests/vm
bench_sms_call_needs = $(suite_vm-sms_needs)

MUTANTS += sms
mutants_sms = sms-*
