# SPDX-License-Identifier: MIT
# Tests that boot machines. A room adds its own:
#
#   VM_SUITES += vm-ROOM
#   suite_vm-ROOM = $(call vm_suite,Room)     runs TestRoom... of tests/vm
#   suite_vm-ROOM_kind = go
#   suite_vm-ROOM_needs = $(vm_needs) ...

vm_needs = kernels kmod $(B)/bin/skep-guest
vm_suite = $(GO) test -count=1 -timeout 20m -json -run '^Test$(1)' ./tests/vm

# What tests in a guest have run there: programs of this computer.
vm_programs = $(B)/test/vm/check $(B)/test/vm/peer

VM_SUITES += vm-lab
suite_vm-lab = $(call vm_suite,Lab)
suite_vm-lab_kind = go
suite_vm-lab_deadline = 1260
suite_vm-lab_needs = $(vm_needs) $(vm_programs)

$(B)/test/vm/check: $(B)/obj/gcc/tests/vm/guest/check.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

$(B)/test/vm/peer: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/vm/guest/peer

# What users do with skep lab.
VM_SUITES += vm-user
suite_vm-user = $(call vm_suite,User)
suite_vm-user_kind = go
suite_vm-user_deadline = 1260
suite_vm-user_needs = $(vm_needs) $(B)/bin/skep

# Lent cores: a test image for them, and what drives it.
vm_image_flags = $(filter-out -O2,$(CFLAGS_FREE)) -O2 -fno-pic -mcmodel=kernel \
	-mno-red-zone -nostdlib -static -Wl,--build-id=none \
	-Wl,--no-warn-rwx-segments -Wl,-z,noexecstack
vm_image := $(B)/test/vm/image
$(vm_image).elf: tests/vm/image/image.lds tests/vm/image/start.S \
		tests/vm/image/main.c tests/vm/image/slot.h \
		include/skep/partition.h
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(vm_image_flags) -Wl,-T,$< -o $@ $(filter %.S %.c,$^)
$(vm_image): $(vm_image).elf
	$(Q)objcopy -O binary $< $@

vm_lend := $(addprefix $(B)/test/vm/,lend_cycle)
$(vm_lend): $(B)/test/vm/%: $(B)/obj/gcc/tests/vm/guest/%.o \
		$(B)/obj/gcc/tests/vm/guest/lend.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

VM_SUITES += vm-shimos
suite_vm-shimos = $(call vm_suite,Shimos)
suite_vm-shimos_kind = go
suite_vm-shimos_deadline = 1260
suite_vm-shimos_needs = $(vm_needs) $(vm_image) $(vm_lend)
