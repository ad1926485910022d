# SPDX-License-Identifier: MIT
# bee.exe: the image itself, and runs under Wine behind the guard. What Wine
# cannot show is in docs/windows.md.

CHECK_SUITES += pe
suite_pe = sh tests/wine/pe.sh $(B)/bin/bee.exe tests/wine/imports.allow
suite_pe_needs = $(B)/bin/bee.exe

# As bee/room.mk links its bee-leak: the rewriter with a planted defect.
bee_win_leak := $(B)/test/bee/bee-leak.exe
$(bee_win_leak): $(B)/bin/bee.exe $(B)/obj/mingw/bee/test/leak.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)x86_64-w64-mingw32-ld -r --wrap=bee_rewrite -o $@.core \
		$(call bee_objects,mingw-free,$(BEE_CORE_SRC)) \
		$(B)/obj/mingw/bee/test/leak.o
	$(Q)$(call bee_win_link,$@,$(BEE_WIN_OBJ) $(bee_win_obj)/bee.res.o \
		$@.core $(B)/lib/mingw/libabi.a)

TEST_SUITES += wine-bee
suite_wine-bee = sh tests/wine/bee.sh $(B)
suite_wine-bee_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_win_leak)
suite_wine-bee_deadline = 600
