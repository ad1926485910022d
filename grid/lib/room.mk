# SPDX-License-Identifier: MIT
# libskeprpc, what masters link, and the tests of manifests, arguments and it.

GRID_LIB_SRC := $(sort $(wildcard grid/lib/*.c)) grid/core/module.c \
	grid/core/marshal.c
grid_lib_objects = $(patsubst %.c,$(B)/obj/$(1)/%.o,$(GRID_LIB_SRC))

OBJECT_GCC_PIC = $(OBJECT_GCC) -fPIC -pthread
$(eval $(call object_rules,gcc-pic,OBJECT_GCC_PIC,CC))

# One object in which only what is public has global names.
$(B)/obj/gcc-pic/grid/lib/skeprpc.o: $(call grid_lib_objects,gcc-pic)
	$(call say,LD)
	$(Q)$(CC) -nostdlib -r -o $@ $^
	$(Q)objcopy --wildcard --keep-global-symbol='OmniRpc*' \
		--keep-global-symbol=skep_call_info $@
$(B)/lib/libskeprpc.a: $(B)/obj/gcc-pic/grid/lib/skeprpc.o
	$(call say,AR)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $<
$(B)/lib/libskeprpc.so: $(call grid_lib_objects,gcc-pic) grid/lib/exports.map
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -Wl,-z,defs -Wl,-soname,libskeprpc.so \
		-Wl,--version-script=grid/lib/exports.map -o $@ \
		$(filter %.o,$^)
PROGRAMS += $(B)/lib/libskeprpc.a $(B)/lib/libskeprpc.so
