# SPDX-License-Identifier: MIT
# SHIMOS. The core is pure and freestanding, the module is for Linux.

KMODS += shimos
kmod_shimos = shimos/kmod
kmod_shimos_with = shimos/core base/errno.h include/skep

SHIMOS_CORE_SRC := $(sort $(wildcard shimos/core/*.c))
shimos_core_san := $(SHIMOS_CORE_SRC:%.c=$(B)/obj/san-free/%.o)
$(B)/test/shimos/%: $(B)/obj/san/shimos/core/test/%.o $(shimos_core_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += shimos-core shimos-request shimos-search shimos-assert
suite_shimos-core = $(B)/test/shimos/parts
suite_shimos-core_needs = $(B)/test/shimos/parts
suite_shimos-request = $(B)/test/shimos/request
suite_shimos-request_needs = $(B)/test/shimos/request
suite_shimos-search = $(B)/test/shimos/search
suite_shimos-search_needs = $(B)/test/shimos/search
suite_shimos-assert = $(B)/test/shimos/assert
suite_shimos-assert_needs = $(B)/test/shimos/assert

$(B)/fuzz/shimos-image: shimos/core/test/fuzz/image.c $(SHIMOS_CORE_SRC) \
		$(wildcard shimos/core/*.h include/skep/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) $(WARN) \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-o $@ $(filter %.c,$^)

FUZZERS += shimos-image
fuzz_shimos-image = $(B)/fuzz/shimos-image -max_len=4096
fuzz_shimos-image_needs = $(B)/fuzz/shimos-image

# A Linux kernel on a partition: what it is given, and the image that boots it.
SHIMOS_LINUX_SRC := $(sort $(wildcard shimos/linux/*.c))
shimos_linux_parts := $(SHIMOS_LINUX_SRC) $(addprefix shimos/core/,ranges.c text.c)
$(B)/test/shimos/linux_%: $(B)/obj/san/shimos/linux/test/%.o \
		$(shimos_linux_parts:%.c=$(B)/obj/san-free/%.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += shimos-linux shimos-place
suite_shimos-linux = $(B)/test/shimos/linux_linux
suite_shimos-linux_needs = $(B)/test/shimos/linux_linux
suite_shimos-place = $(B)/test/shimos/linux_memory
suite_shimos-place_needs = $(B)/test/shimos/linux_memory

OBJECT_LENT = $(CC) $(CFLAGS_FREE) -mno-red-zone -mcmodel=kernel -fno-pic -fno-pie
$(eval $(call object_rules,lent,OBJECT_LENT,CC))
shimos_boot := $(patsubst %,$(B)/obj/lent/%.o,$(basename $(shimos_linux_parts) \
	shimos/core/tables.c shimos/linux/boot/main.c shimos/linux/boot/start.S))
$(B)/lib/linux-boot.elf: shimos/linux/boot/image.lds $(shimos_boot)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)ld -static --build-id=none --no-warn-rwx-segments -z noexecstack \
		-T $< -o $@ $(filter %.o,$^)
$(B)/bin/linux-boot.image: $(B)/lib/linux-boot.elf
	$(call say,IMAGE)
	$(Q)mkdir -p $(@D)
	$(Q)objcopy -O binary $< $@

# In that kernel: its first program, the module for its console and end, and the
# one for its devices.
$(B)/bin/linux-init: $(B)/obj/gcc/shimos/linux/init/main.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -s -o $@ $^
PROGRAMS += $(B)/bin/linux-boot.image $(B)/bin/linux-init
KMODS += shimos_guest shimos_virtio
kmod_shimos_guest = shimos/linux/kmod
kmod_shimos_guest_with = include/skep
kmod_shimos_virtio = shimos/linux/virtio/kmod
kmod_shimos_virtio_with = include/skep

$(B)/fuzz/shimos-kernel: shimos/linux/test/fuzz/kernel.c $(shimos_linux_parts) \
		$(wildcard shimos/linux/*.h shimos/core/*.h include/skep/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) $(WARN) \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-o $@ $(filter %.c,$^)

FUZZERS += shimos-kernel
fuzz_shimos-kernel = $(B)/fuzz/shimos-kernel -max_len=4096
fuzz_shimos-kernel_needs = $(B)/fuzz/shimos-kernel

# Lent cores: a test image for them, and what drives it.
vm_image_flags = $(filter-out -O2,$(CFLAGS_FREE)) -O2 -fno-pic -mcmodel=kernel \
	-mno-red-zone -nostdlib -static -Wl,--build-id=none \
	-Wl,--no-warn-rwx-segments -Wl,-z,noexecstack
vm_image := $(B)/test/vm/image
$(vm_image).elf: tests/vm/image/image.lds tests/vm/image/start.S \
		tests/vm/image/main.c tests/vm/image/slot.h \
		include/skep/partition.h include/skep/nmi.h
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(vm_image_flags) -Wl,-T,$< -o $@ $(filter %.S %.c,$^)
$(vm_image): $(vm_image).elf
	$(Q)objcopy -O binary $< $@

vm_lend := $(addprefix $(B)/test/vm/,lend_cycle lend_rules lend_force \
	lend_storm lend_noise lend_race lend_wild lend_scatter lend_hunt \
	lend_idle lend_stray)
$(vm_lend): $(B)/test/vm/%: $(B)/obj/gcc/tests/vm/guest/%.o \
		$(B)/obj/gcc/tests/vm/guest/lend.o \
		$(B)/obj/gcc/tests/vm/guest/broadcast.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^

# Process 1 of a machine without anything else.
$(B)/test/vm/lend_down: $(B)/obj/gcc/tests/vm/guest/lend_down.o \
		$(B)/obj/gcc/tests/vm/guest/lend.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -o $@ $^

# The user space of a Linux kernel on a partition.
$(B)/test/vm/linux_user: $(B)/obj/gcc/tests/vm/guest/linux_user.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -pthread -o $@ $^
VM_SUITES += vm-linux
suite_vm-linux = $(call vm_suite,Linux)
suite_vm-linux_kind = go
suite_vm-linux_deadline = 1260
suite_vm-linux_needs = $(vm_needs) $(B)/bin/skep $(B)/bin/linux-boot.image \
	$(B)/bin/linux-init $(B)/test/vm/linux_user

KMODS_ASIDE += witness
kmod_witness = tests/vm/kmod/witness

VM_SUITES += vm-shimos
suite_vm-shimos = $(call vm_suite,Shimos)
suite_vm-shimos_kind = go
suite_vm-shimos_deadline = 1260
suite_vm-shimos_needs = $(vm_needs) $(vm_image) $(vm_lend) $(B)/bin/skep \
	$(B)/bin/sms.image

CHECK_SUITES += ninep
suite_ninep = $(GO) test -count=1 -json ./shimos/ninep
suite_ninep_kind = go

CHECK_SUITES += part
suite_part = $(GO) test -count=1 -json ./shimos/part
suite_part_kind = go

# Each kernel in turn: an afternoon. Then the tests' short form on a kernel that
# looks for mistakes.
SOAKS += shimos shimos-debug
soak_shimos = SKEP_SOAK_CYCLES=1000 $(GO) test -count=1 -v -timeout 6h \
	-run '^TestSoakShimos$$' ./tests/vm
soak_shimos_needs = $(suite_vm-shimos_needs)
soak_shimos-debug = $(MAKE) --no-print-directory kmod \
	KMOD_SERIES='$(DEBUG_SERIES)' && SKEP_DEBUG_KERNEL='$(DEBUG_SERIES)' \
	$(GO) test -count=1 -v -timeout 2h -tags debugkernel \
	-run '^TestShimosDebug$$' ./tests/vm
soak_shimos-debug_needs = $(suite_vm-shimos_needs) $(suite_vm-sms_needs)

# Reboot, kexec and panic while lent cores run an image.
FULL_SUITES += vm-down
suite_vm-down = $(GO) test -count=1 -json -timeout 2h -run '^TestDownShimos$$' ./tests/vm
suite_vm-down_kind = go
suite_vm-down_deadline = 3600
suite_vm-down_needs = $(suite_vm-shimos_needs) $(B)/test/vm/lend_down \
	$(foreach s,$(KMOD_SERIES),$(B)/kmod/$(s)/witness/witness.ko)

MUTANTS += shimos/core
mutants_shimos/core = shimos-*

MUTANTS += shimos/linux
mutants_shimos/linux = shimos-linux shimos-place
# Only machines test them.
mutants_without_shimos/linux = $(wildcard shimos/linux/*/*.c)

MUTANTS += shimos/part
mutants_shimos/part = part
mutants_without_shimos/part = shimos/part/boot_linux.go

MUTANTS += shimos/ninep
mutants_shimos/ninep = ninep
