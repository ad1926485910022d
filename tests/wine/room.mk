# SPDX-License-Identifier: MIT
# bee.exe and skep.exe: the images, and bee's runs under Wine behind the guard.
# What Wine cannot show is in docs/windows.md.

pe_imports := tests/style/windows-imports.tbl

CHECK_SUITES += pe
suite_pe = sh tests/wine/pe.sh $(B)/bin/bee.exe $(pe_imports) fixed
suite_pe_needs = $(B)/bin/bee.exe

CHECK_SUITES += pe-skep
suite_pe-skep = sh tests/wine/pe.sh $(B)/bin/skep.exe \
	$(pe_imports) moves
suite_pe-skep_needs = $(B)/bin/skep.exe

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

$(B)/test/wine/stuck.exe: tests/wine/stuck.c
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -std=gnu11 -O2 -Wall -Wextra -Werror -o $@ $<

TEST_SUITES += wine-bee
suite_wine-bee = $(STEADY) sh tests/wine/bee.sh $(B)
suite_wine-bee_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/hello-lost \
	$(bee_win_leak) $(B)/test/wine/stuck.exe
suite_wine-bee_deadline = 600

# stream.c with each of its steps refused once.
bee_stream_test := $(B)/test/wine/stream.exe
$(bee_stream_test): $(B)/obj/mingw/tests/wine/stream.o \
		$(B)/obj/mingw-free/abi/lib/name.o \
		$(B)/obj/mingw-free/abi/lib/mem.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -o $@ $^ -lsynchronization

TEST_SUITES += wine-stream
suite_wine-stream = $(STEADY) sh tests/wine/exe.sh $(B) $(bee_stream_test)
suite_wine-stream_needs = $(bee_stream_test)

# view.c with what Wine cannot show, and each of its steps refused once.
bee_view_test := $(B)/test/wine/view.exe
$(bee_view_test): $(B)/obj/mingw/tests/wine/view.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -o $@ $^ -lsynchronization

TEST_SUITES += wine-view
suite_wine-view = $(STEADY) sh tests/wine/exe.sh $(B) $(bee_view_test)
suite_wine-view_needs = $(bee_view_test)

# Names where Windows does what Wine never does.
bee_branch_test := $(B)/test/wine/branch.exe
$(bee_branch_test): $(B)/obj/mingw/tests/wine/branch.o \
		$(B)/obj/mingw/bee/host/windows/xlat.o $(B)/lib/mingw/libabi.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -o $@ $^ -lbcrypt -lws2_32

TEST_SUITES += wine-branch
suite_wine-branch = $(STEADY) sh tests/wine/exe.sh $(B) $(bee_branch_test)
suite_wine-branch_needs = $(bee_branch_test)

# Clocks, volumes, the console, the child's policies and error codes likewise.
bee_host_test := $(B)/test/wine/host.exe
$(bee_host_test): $(B)/obj/mingw/tests/wine/host.o \
		$(B)/obj/mingw/bee/host/windows/tsc.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -o $@ $^ -lntdll -lsynchronization -lws2_32

TEST_SUITES += wine-host
suite_wine-host = $(STEADY) sh tests/wine/exe.sh $(B) $(bee_host_test)
suite_wine-host_needs = $(bee_host_test)

# Go's run-time tested by its authors, as a program of ours. Building it compiles Go's
# library once more.
go_runtime := $(B)/test/wine/go-runtime.test
$(go_runtime):
	$(call say,GO)
	$(Q)mkdir -p $(@D)
	$(Q)CGO_ENABLED=0 $(GO) test -c -o $@ runtime
SLOW += $(go_runtime)

FULL_SUITES += wine-go-runtime
suite_wine-go-runtime = $(STEADY) sh tests/wine/go-runtime.sh $(B) \
	$(go_runtime)
suite_wine-go-runtime_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard \
	$(go_runtime)

TEST_SUITES += wine-files
suite_wine-files = $(STEADY) sh tests/wine/files.sh $(B)
suite_wine-files_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/sqlite-glibc
suite_wine-files_deadline = 600

TEST_SUITES += wine-requests
suite_wine-requests = $(STEADY) sh tests/wine/requests.sh $(B)
suite_wine-requests_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard \
	$(bee_t)/costs-glibc
suite_wine-requests_deadline = 600

TEST_SUITES += wine-links
suite_wine-links = $(STEADY) sh tests/wine/links.sh $(B)
suite_wine-links_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard $(bee_t)/reach-glibc

# Beside a program of Windows that locks the same bytes.
bee_native_locker := $(B)/test/wine/locker.exe
$(bee_native_locker): $(B)/obj/mingw/tests/wine/locker.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -o $@ $^

TEST_SUITES += wine-native
suite_wine-native = $(STEADY) sh tests/wine/native.sh $(B)
suite_wine-native_needs = $(B)/bin/bee.exe $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_native_locker)
suite_wine-native_deadline = 600

TEST_SUITES += wine-alone
suite_wine-alone = $(STEADY) sh tests/wine/alone.sh $(B)
suite_wine-alone_needs = $(B)/bin/skep $(B)/bin/skep.exe

# Prefixes of tests: copies of one that no test uses.
wine_fresh := $(B)/wine-fresh/system.reg
$(wine_fresh):
	$(call say,WINE)
	$(Q)mkdir -p $(B)
	$(Q)$(STEADY) sh tests/wine/prefix.sh $(@D)
SLOW += $(wine_fresh)

$(call wine_prefix) $(foreach n,agent compat demo ident journey kit walk,$(call wine_prefix,$(n))): | $(wine_fresh)
	$(call say,WINE)
	$(Q)sh tests/wine/prefix.sh $(wine_fresh:/system.reg=) $(@D)
