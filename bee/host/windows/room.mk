# SPDX-License-Identifier: MIT
# bee.exe. bee/room.mk builds core and the rewriter with mingw into one object
# and includes this file. The image has a fixed base: nothing may be taken
# before the guest's range, so there are no relocations and no ASLR.

BEE_WIN := bee/host/windows
BEE_WIN_SRC := $(sort $(wildcard $(BEE_WIN)/*.c)) $(BEE_WIN)/guest.S \
	$(BEE_WIN)/probe_trap.S
BEE_WIN_OBJ := $(call bee_objects,mingw,$(BEE_WIN_SRC))
bee_win_obj := $(B)/obj/mingw/$(BEE_WIN)
BEE_WIN_LIBS := -ladvapi32 -lws2_32 -lbcrypt -lsynchronization -lntdll

$(BEE_WIN_OBJ): CFLAGS_HOST += -fno-stack-protector
$(BEE_WIN_OBJ): | $(ABI_GEN)
# Runs while the guest's vector registers are live.
# Without __faststorefence, for which newer headers of MinGW use SSE.
$(foreach f,fault clock tsc,$(bee_win_obj)/$(f).o): CFLAGS_HOST += -mgeneral-regs-only \
	-D__INTRINSIC_DEFINED___faststorefence

$(bee_win_obj)/bee.ld: $(BEE_WIN)/bee.ld.S include/skep/guest.h
	$(call say,CPP)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -E -P -x assembler-with-cpp $(INCLUDE) -o $@ $<

$(bee_win_obj)/bee.res.o: $(BEE_WIN)/bee.rc $(BEE_WIN)/bee.manifest
	$(call say,RC)
	$(Q)mkdir -p $(@D)
	$(Q)$(WINDRES) -I$(BEE_WIN) $< $@

# ld gives .guest a size in the file, though it has no bytes there; objcopy
# makes it the uninitialised, read-only section that it is.
# $(call bee_win_link,output,objects)
# Neither tool may write the present time: releases are to have equal bytes.
define bee_win_link
$(MINGW) -municode -s -o $(1).linked $(2) $(BEE_WIN_LIBS) \
	-Wl,-T,$(bee_win_obj)/bee.ld -Wl,--image-base,0x3f0000 \
	-Wl,--disable-dynamicbase -Wl,--disable-reloc-section \
	-Wl,--stack,0x100000 -Wl,--no-insert-timestamp \
	-Wl,--major-os-version,10 -Wl,--minor-os-version,0 \
	-Wl,--major-subsystem-version,10 -Wl,--minor-subsystem-version,0 && \
SOURCE_DATE_EPOCH=0 x86_64-w64-mingw32-objcopy --set-section-flags .guest=alloc,readonly \
	$(1).linked $(1) && rm -f $(1).linked
endef

bee_win_parts := $(BEE_WIN_OBJ) $(bee_win_obj)/bee.res.o \
	$(B)/lib/mingw/bee-core.o $(B)/lib/mingw/libabi.a

$(B)/bin/bee.exe: $(bee_win_parts) $(bee_win_obj)/bee.ld
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(call bee_win_link,$@,$(bee_win_parts))

PROGRAMS += $(B)/bin/bee.exe
