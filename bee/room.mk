# SPDX-License-Identifier: MIT
# bee on Linux, the guard, and the tests of both. core and the rewriter are
# linked into one object in which memcpy and its brothers are abi's, as in
# abi/room.mk: no libc function may run while the guest's vector state is live.

BEE_CORE_SRC := $(sort $(wildcard bee/core/*.c bee/core/*.S)) \
	$(sort $(wildcard bee/rewrite/*.c)) base/sha256.c
BEE_LINUX_SRC := $(sort $(wildcard bee/host/linux/*.c bee/host/linux/*.S \
	abi/linux/*.c))

# $(call bee_objects,toolchain,sources)
bee_objects = $(patsubst %,$(B)/obj/$(1)/%.o,$(basename $(2)))

# What images in the cache depend on.
bee_revision_src := $(sort $(wildcard bee/rewrite/*.[ch])) \
	include/skep/guest.h bee/core/bee.h bee/core/load.c bee/core/image.c \
	bee/core/cache.c bee/core/unwind.c bee/core/pointers.c
$(B)/gen/bee/revision.h: $(bee_revision_src)
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)printf '#define BEE_REVISION 0x%.16sull\n' \
		"$$(cat $^ | sha256sum)" >$@
$(foreach t,gcc-free mingw-free san-free,$(B)/obj/$(t)/bee/core/cache.o): \
	$(B)/gen/bee/revision.h
GENERATED += $(B)/gen/bee/revision.h

# report.c names system calls.
$(foreach t,gcc-free mingw-free,$(call bee_objects,$(t),$(BEE_CORE_SRC))): \
	| $(ABI_GEN)

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
# Runs while the guest's vector registers are live.
$(B)/obj/gcc/bee/host/linux/vdso.o: CFLAGS_HOST += -mgeneral-regs-only

$(B)/bin/bee: $(bee_linux_parts)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static-pie -o $@ $^

$(B)/bin/bee-guard: $(B)/obj/gcc/bee/guard/guard.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static-pie -o $@ $^

PROGRAMS += $(B)/bin/bee $(B)/bin/bee-guard

include bee/host/windows/room.mk

# Tests: guests of three kinds, and a bee whose rewriter forgets sites.
bee_t := $(B)/test/bee
BEE_GUESTS := $(foreach g,hello work proof jit state unmap clock lines holder locker mapper refused stack family reach swap saved held unnamed denied costs tree churn,$(foreach l,glibc pie musl,\
	$(bee_t)/$(g)-$(l))) $(bee_t)/gowork $(bee_t)/many-musl \
	$(addprefix $(bee_t)/numbers-,glibc pie relr)
bee_guest = $(Q)mkdir -p $(@D) && $(1) -std=gnu11 -O2 -w -pthread $(2) -o $@ $<

$(bee_t)/%-glibc: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(CC),-static)
$(bee_t)/%-pie: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(CC),-static-pie)
$(bee_t)/%-musl: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(MUSL),-static)
# Its relocations are words of its data.
$(bee_t)/numbers-relr: bee/test/guest/numbers.c
	$(call say,CC)
	$(call bee_guest,$(CC),-static-pie -Wl$(comma)-z$(comma)pack-relative-relocs)
# Dynamic ones: at any address, at a fixed one, of another C library; without
# their loader, and with one that is none.
BEE_DYNAMIC := $(addprefix $(bee_t)/numbers-glibc-,dynamic fixed) \
	$(foreach g,hello work stack,$(addprefix $(bee_t)/$(g)-,\
	glibc-dynamic glibc-fixed musl-dynamic)) $(bee_t)/hello-lost \
	$(bee_t)/hello-noloader $(addprefix $(bee_t)/library/,open part.so gs.so \
	textrel.so two.so joined.so)
# Those that are saved.
BEE_SAVED := $(bee_t)/loads-glibc-dynamic $(foreach g,held saved tree,$(addprefix \
	$(bee_t)/$(g)-,glibc-dynamic musl-dynamic))
$(bee_t)/%-glibc-dynamic: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(CC),-pie -fPIE)
$(bee_t)/%-glibc-fixed: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(CC),-no-pie -fno-pie)
$(bee_t)/%-musl-dynamic: bee/test/guest/%.c
	$(call say,CC)
	$(call bee_guest,$(MUSL),)
$(bee_t)/hello-lost: bee/test/guest/hello.c
	$(call say,CC)
	$(call bee_guest,$(CC),-Wl$(comma)--dynamic-linker=/nowhere/ld.so)
$(bee_t)/hello-noloader: bee/test/guest/hello.c
	$(call say,CC)
	$(call bee_guest,$(CC),-Wl$(comma)--dynamic-linker=/usr/bin/ldd)
$(bee_t)/library/open: bee/test/library/open.c
	$(call say,CC)
	$(call bee_guest,$(CC),)
bee_library = $(Q)mkdir -p $(@D) && $(CC) -std=gnu11 -O2 -shared -fPIC \
	$(1) -o $@ $(filter %.c,$^)
$(bee_t)/library/part.so: bee/test/library/part.c
	$(call say,CC)
	$(call bee_library,)
# Headers, code and read-only data in one segment.
$(bee_t)/library/joined.so: bee/test/library/part.c
	$(call say,CC)
	$(call bee_library,-DREAD_ONLY -Wl$(comma)-z$(comma)noseparate-code)
$(bee_t)/library/gs.so: bee/test/library/part.c
	$(call say,CC)
	$(call bee_library,-DBAD_GS)
$(bee_t)/library/textrel.so: bee/test/library/part.c
	$(call say,CC)
	$(call bee_library,-DBAD_TEXTREL -Wl$(comma)-z$(comma)notext \
		-Wl$(comma)--no-warnings)
$(bee_t)/library/two.so: bee/test/library/part.c bee/test/library/two.ld
	$(call say,CC)
	$(call bee_library,-ffunction-sections \
		-Wl$(comma)-T$(comma)bee/test/library/two.ld)

$(bee_t)/sqlite-glibc: bee/test/guest/sqlite.c
	$(call say,CC)
	$(call bee_guest,$(CC),-static) -lsqlite3 -lm 2>&1 | grep -v -e dlopen \
		-e sqlite3UnixDl -e 'in function' >&2; test -x $@
$(bee_t)/gowork: bee/test/gowork/main.go
	$(call say,GO)
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./bee/test/gowork

$(bee_t)/bee-leak: $(bee_linux_parts) $(B)/obj/gcc/bee/test/leak.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)ld -r --wrap=bee_rewrite -o $@.core \
		$(call bee_objects,gcc-free,$(BEE_CORE_SRC)) \
		$(B)/obj/gcc/bee/test/leak.o
	$(Q)$(CC) -static-pie -o $@ $@.core \
		$(filter-out %/bee-core.o,$(bee_linux_parts))

$(bee_t)/bee-fallback: $(bee_linux_parts) $(B)/obj/gcc/bee/test/fallback.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)ld -r --wrap=bee_cpu_init --wrap=bee_cpuid -o $@.core \
		$(call bee_objects,gcc-free,$(BEE_CORE_SRC)) \
		$(B)/obj/gcc/bee/test/fallback.o
	$(Q)objcopy $(foreach f,memcpy memmove memset memcmp,\
		--redefine-sym $(f)=abi_$(f)) $@.core
	$(Q)$(CC) -static-pie -Wl,--wrap=getauxval \
		-Wl,--wrap=pthread_create -o $@ $@.core \
		$(filter-out %/bee-core.o,$(bee_linux_parts))

CHECK_SUITES += bee-linux
suite_bee-linux = sh bee/test/run.sh $(B)
suite_bee-linux_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/hello-lost \
	$(bee_t)/bee-leak

CHECK_SUITES += bee-files
suite_bee-files = sh bee/test/files.sh $(B)
suite_bee-files_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/sqlite-glibc

CHECK_SUITES += bee-root
suite_bee-root = sh bee/test/root.sh $(B)
suite_bee-root_needs = $(B)/bin/bee $(B)/bin/bee-guard $(bee_t)/reach-glibc \
	$(B)/conformance/glibc/unix_peers \
	$(B)/conformance/glibc/descriptor_names \
	$(B)/conformance/glibc/descriptor_links \
	$(bee_t)/hello-glibc-dynamic

CHECK_SUITES += bee-parents
suite_bee-parents = sh bee/test/parents.sh $(B)
suite_bee-parents_needs = $(B)/bin/bee $(B)/bin/bee-guard $(bee_t)/reach-glibc \
	$(bee_t)/swap-glibc

CHECK_SUITES += bee-dynamic
suite_bee-dynamic = sh bee/test/dynamic.sh $(B)
suite_bee-dynamic_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_DYNAMIC) \
	$(bee_t)/bee-leak

# What a distribution built; what is not installed is skipped.
CHECK_SUITES += bee-programs
suite_bee-programs = sh bee/test/programs.sh $(B)
suite_bee-programs_needs = $(B)/bin/bee $(B)/bin/bee-guard

TEST_SUITES += bee-shell
suite_bee-shell = sh bee/test/shell.sh $(B)
suite_bee-shell_needs = $(B)/bin/bee $(B)/bin/bee-guard
suite_bee-shell_deadline := 120

CHECK_SUITES += bee-unwind
suite_bee-unwind = $(bee_t)/unwind $(bee_t)/hello-glibc $(bee_t)/hello-pie
suite_bee-unwind_needs = $(bee_t)/unwind $(bee_t)/hello-glibc \
	$(bee_t)/hello-pie
$(bee_t)/unwind: $(B)/obj/san/bee/test/unwind.o $(rewrite_san) \
		$(B)/obj/san-free/bee/core/unwind.o $(B)/obj/san-free/abi/lib/mem.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += bee-pointers
suite_bee-pointers = $(bee_t)/pointers $(bee_t)/hello-glibc-fixed $(bee_t)/hello-pie \
	$(bee_t)/library/open
suite_bee-pointers_needs = $(suite_bee-pointers)
$(bee_t)/pointers: $(B)/obj/san/bee/test/pointers.o $(addprefix \
		$(B)/obj/san-free/,bee/core/pointers.o bee/core/unwind.o \
		abi/lib/mem.o) $(rewrite_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

# Of bee.exe, but pure.
CHECK_SUITES += bee-locktable
suite_bee-locktable = $(bee_t)/locktable
suite_bee-locktable_needs = $(bee_t)/locktable
$(bee_t)/locktable: $(B)/obj/san/bee/test/locktable.o \
		$(B)/obj/san-free/bee/host/windows/locktable.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += bee-tsc
suite_bee-tsc = $(bee_t)/tsc
suite_bee-tsc_needs = $(bee_t)/tsc
$(bee_t)/tsc: $(B)/obj/san/bee/test/tsc.o \
		$(B)/obj/san-free/bee/host/windows/tsc.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += bee-sha256
suite_bee-sha256 = $(bee_t)/sha256
suite_bee-sha256_needs = $(bee_t)/sha256
$(bee_t)/sha256: $(B)/obj/gcc/bee/test/sha256.o $(call bee_objects,gcc-free,\
		bee/core/sha256.c bee/core/sha256_ni.S base/sha256.c abi/lib/mem.c)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^

CHECK_SUITES += bee-cache
suite_bee-cache = sh bee/test/cache.sh $(B)
suite_bee-cache_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/trap
$(bee_t)/trap: bee/test/guest/trap.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -static -nostdlib -o $@ $<

# Of bee on Linux, but without a guest.
bee_wrap_auxv := -Wl,--wrap=getauxval
# $(1): test, $(2): what it tests, $(3): how it is linked
define bee_host_suite
CHECK_SUITES += bee-$(1)
suite_bee-$(1) = $(bee_t)/$(1)_test
suite_bee-$(1)_needs = $(bee_t)/$(1)_test
$(bee_t)/$(1)_test: $(B)/obj/san/bee/test/$(1).o $(2)
	$$(call say,LINK)
	$(Q)mkdir -p $$(@D)
	$(Q)$(OBJECT_SAN) $(3) -o $$@ $$^
endef
$(eval $(call bee_host_suite,mem,$(B)/obj/san/bee/host/linux/mem.o))
$(eval $(call bee_host_suite,receive,$(foreach f,receive mem cache,\
	$(B)/obj/san/bee/host/linux/$(f).o) $(foreach f,bee/core/snapshot \
	base/sha256 abi/lib/mem,$(B)/obj/san-free/$(f).o)))
$(eval $(call bee_host_suite,written,$(B)/obj/san/bee/host/linux/written.o))
$(eval $(call bee_host_suite,own,$(foreach f,own mem cache,\
	$(B)/obj/san/bee/host/linux/$(f).o) $(foreach f,root file stat,\
	$(B)/obj/gcc/abi/linux/$(f).o)))
$(eval $(call bee_host_suite,vdso,$(B)/obj/san/bee/host/linux/vdso.o \
	$(rewrite_san) $(B)/obj/san-free/abi/lib/mem.o,$(bee_wrap_auxv)))

$(eval $(call bee_host_suite,report,$(B)/obj/san-free/bee/core/report.o \
	$(B)/obj/san-free/abi/lib/mem.o))
$(B)/obj/san-free/bee/core/report.o: | $(ABI_GEN)
bee_wrap_clock := $(foreach f,getrandom uname sysinfo getrusage getuid getgid \
	sched_getaffinity,-Wl,--wrap=$(f))
$(eval $(call bee_host_suite,clock,$(B)/obj/san/bee/host/linux/clock.o,\
	$(bee_wrap_clock)))
bee_wrap_exec := $(foreach f,execve memfd_create,-Wl,--wrap=$(f))
$(eval $(call bee_host_suite,exec,$(B)/obj/san/bee/host/linux/exec.o,\
	$(bee_wrap_exec)))
$(eval $(call bee_host_suite,thread,$(B)/obj/san/bee/host/linux/thread.o))
# The watcher has thread-local storage of its own, which sanitizers do not know.
CHECK_SUITES += bee-robust
suite_bee-robust = $(bee_t)/robust_test
suite_bee-robust_needs = $(bee_t)/robust_test
$(bee_t)/robust_test: $(B)/obj/gcc/bee/test/robust.o \
		$(B)/obj/gcc/bee/host/linux/robust.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -pthread -o $@ $^
bee_wrap_family := $(foreach f,tcgetpgrp tcsetpgrp pthread_mutex_lock \
	pthread_mutex_unlock,-Wl,--wrap=$(f))
$(eval $(call bee_host_suite,family,$(foreach f,family procfs,\
	$(B)/obj/san/bee/host/linux/$(f).o) $(B)/obj/san-free/bee/core/options.o \
	$(B)/obj/san-free/abi/lib/mem.o,\
	$(bee_wrap_family)))
$(eval $(call bee_host_suite,images,$(addprefix $(B)/obj/san-free/,\
	bee/core/images.o bee/core/library.o abi/lib/mem.o)))
bee_wrap_ipc := $(foreach f,syscall shmctl msgctl inotify_init1 \
	inotify_add_watch inotify_rm_watch,-Wl,--wrap=$(f))
$(eval $(call bee_host_suite,ipc,$(B)/obj/san/bee/host/linux/ipc.o,\
	$(bee_wrap_ipc)))
bee_wrap_open := -Wl,--wrap=open
$(eval $(call bee_host_suite,procfs,$(B)/obj/san/bee/host/linux/procfs.o \
	$(B)/obj/san-free/bee/core/options.o $(B)/obj/san-free/abi/lib/mem.o,\
	$(bee_wrap_open)))
$(eval $(call bee_host_suite,options,$(addprefix $(B)/obj/san-free/,\
	bee/core/options.o abi/lib/mem.o)))
$(eval $(call bee_host_suite,store,$(addprefix $(B)/obj/san-free/,\
	bee/core/cache.o bee/rewrite/map.o base/sha256.o abi/lib/mem.o)))
$(eval $(call bee_host_suite,cpu,$(B)/obj/san-free/bee/core/cpu.o \
	$(addprefix $(B)/obj/san-free/abi/lib/,mem.o vec.o)))

# At each end of the addresses that it guards; itself it lies outside.
CHECK_SUITES += bee-guard
suite_bee-guard = $(B)/bin/bee-guard $(bee_t)/guard_test
suite_bee-guard_needs = $(B)/bin/bee-guard $(bee_t)/guard_test
$(bee_t)/guard_test: $(B)/obj/gcc/bee/test/guard.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static-pie -o $@ $^

CHECK_SUITES += bee-control
suite_bee-control = $(bee_t)/control_test $(B)
suite_bee-control_needs = $(bee_t)/control_test $(B)/bin/bee $(BEE_GUESTS) $(BEE_SAVED)
$(bee_t)/control_test: $(B)/obj/san/bee/test/control.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

CHECK_SUITES += bee-state
suite_bee-state = sh bee/test/state.sh $(B)
suite_bee-state_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/bee-fallback

# Saved and restored programs; make soak takes more moments.
CHECK_SUITES += bee-snapshot
suite_bee-snapshot = sh bee/test/snapshot.sh $(B) 12
suite_bee-snapshot_needs = $(B)/bin/bee $(B)/bin/bee-guard $(BEE_GUESTS) \
	$(bee_t)/hello-glibc-dynamic $(bee_t)/bee-fallback $(BEE_SAVED) \
	$(bee_t)/library/part.so $(bee_t)/library/joined.so
suite_bee-snapshot_deadline := 180
CHECK_SUITES += bee-snapfile
suite_bee-snapfile = sh bee/test/snapfile.sh $(B)
suite_bee-snapfile_needs = $(suite_bee-snapshot_needs)
CHECK_SUITES += bee-snaptext
suite_bee-snaptext = sh bee/test/snaptext.sh $(B)
suite_bee-snaptext_needs = $(suite_bee-snapshot_needs)
CHECK_SUITES += bee-snapdeath
suite_bee-snapdeath = sh bee/test/snapdeath.sh $(B)
suite_bee-snapdeath_needs = $(suite_bee-snapshot_needs)
CHECK_SUITES += bee-snaptree
suite_bee-snaptree = sh bee/test/snaptree.sh $(B)
suite_bee-snaptree_needs = $(suite_bee-snapshot_needs)
CHECK_SUITES += bee-snapchurn
suite_bee-snapchurn = sh bee/test/snapchurn.sh $(B)
suite_bee-snapchurn_needs = $(suite_bee-snapshot_needs)
FUZZERS += bee-snapshot
fuzz_bee-snapshot = $(B)/fuzz/bee-snapshot
fuzz_bee-snapshot_needs = $(B)/fuzz/bee-snapshot
$(B)/fuzz/bee-snapshot: bee/test/fuzz/snapshot.c bee/core/snapshot.c \
		base/sha256.c abi/lib/mem.c bee/core/snapshot.h
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)
FUZZERS += bee-pointers
fuzz_bee-pointers = $(B)/fuzz/bee-pointers
fuzz_bee-pointers_needs = $(B)/fuzz/bee-pointers
$(B)/fuzz/bee-pointers: bee/test/fuzz/pointers.c bee/core/pointers.c \
		bee/core/unwind.c bee/rewrite/eh.c abi/lib/mem.c \
		$(wildcard bee/core/*.h bee/rewrite/*.h abi/include/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)
SOAKS += bee
soak_bee = sh bee/test/snapshot.sh $(B) 100
soak_bee_needs = $(suite_bee-snapshot_needs)

MUTANTS += bee
mutants_bee = bee-control bee-snapshot bee-snaptree bee-snapchurn bee-snapfile bee-snaptext bee-linux bee-root bee-parents bee-files bee-unwind bee-pointers bee-locktable bee-tsc bee-cache \
	bee-state bee-store bee-options bee-ipc bee-procfs bee-dynamic bee-images bee-sha256 bee-mem bee-receive bee-written bee-own bee-vdso bee-report bee-cpu bee-clock bee-exec bee-family bee-thread bee-robust \
	bee-guard bee-rewrite*
