# SPDX-License-Identifier: MIT
# bee on Linux, the guard, and the tests of both. core and the rewriter are
# linked into one object in which memcpy and its brothers are abi's, as in
# abi/room.mk: no libc function may run while the guest's vector state is live.

BEE_CORE_SRC := $(sort $(wildcard bee/core/*.c bee/core/*.S)) \
	$(sort $(wildcard bee/rewrite/*.c))
BEE_LINUX_SRC := $(sort $(wildcard bee/host/linux/*.c bee/host/linux/*.S))

# $(call bee_objects,toolchain,sources)
bee_objects = $(patsubst %,$(B)/obj/$(1)/%.o,$(basename $(2)))

# $(1): toolchain, $(2): compiler, $(3): objcopy
define bee_core_object
$(B)/lib/$(1)/bee-core.o: $(call bee_objects,$(1)-free,$(BEE_CORE_SRC))
	$$(call say,LD)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) -nostdlib -r -o $$@.all $$^
	$(Q)$(3) $(foreach f,memcpy memmove memset memcmp,\
		--redefine-sym $(f)=abi_$(f)) $$@.all $$@
	$(Q)rm -f $$@.all
endef
$(eval $(call bee_core_object,gcc,$(CC),objcopy))
$(eval $(call bee_core_object,mingw,$(MINGW),x86_64-w64-mingw32-objcopy))

bee_linux_parts := $(call bee_objects,gcc,$(BEE_LINUX_SRC)) \
	$(B)/lib/gcc/bee-core.o $(B)/lib/gcc/libabi.a
$(call bee_objects,gcc,$(BEE_LINUX_SRC)): CFLAGS_HOST += -fno-stack-protector
$(call bee_objects,gcc,$(BEE_LINUX_SRC)): | $(GENERATED)

$(B)/bin/bee: $(bee_linux_parts)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static-pie -o $@ $^

$(B)/bin/bee-guard: $(B)/obj/gcc/bee/guard/guard.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -o $@ $^

PROGRAMS += $(B)/bin/bee $(B)/bin/bee-guard
