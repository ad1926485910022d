# SPDX-License-Identifier: MIT
# The rewriter: pure code, tested on the machine itself. bee/room.mk links the
# sources into bee; here are their suites, the bench and the fuzzer.

REWRITE_SRC := $(sort $(wildcard bee/rewrite/*.c))
rewrite_san := $(REWRITE_SRC:%.c=$(B)/obj/san-free/%.o)
rewrite_gcc := $(REWRITE_SRC:%.c=$(B)/obj/gcc-free/%.o)
rewrite_clang := $(REWRITE_SRC:%.c=$(B)/obj/clang-free/%.o)
rewrite_dir := $(B)/test/bee/rewrite

$(addprefix $(rewrite_dir)/,unit classes eh emit map): $(rewrite_dir)/%: \
		$(B)/obj/san/bee/rewrite/test/%.o $(rewrite_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^
# Not under sanitizers: the code under test owns FS and GS.
$(rewrite_dir)/native: $(B)/obj/gcc/bee/rewrite/test/native.o \
		$(B)/obj/gcc/bee/rewrite/test/native_asm.o $(rewrite_clang)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^
$(rewrite_dir)/step: $(B)/obj/gcc/bee/rewrite/test/step.o \
		$(B)/obj/gcc/bee/rewrite/test/native_asm.o $(rewrite_gcc)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^
$(rewrite_dir)/cover $(rewrite_dir)/lengths: $(rewrite_dir)/%: \
		$(B)/obj/gcc/bee/rewrite/test/%.o $(rewrite_gcc)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^

# Programs of every kind the rewriter must know, made from two sources.
rewrite_guests := $(addprefix $(rewrite_dir)/,glibc pie musl vectors golang)
$(rewrite_dir)/glibc: bee/rewrite/test/guest.c
	$(call say,GUEST)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -static -pthread -o $@ $<
$(rewrite_dir)/pie: bee/rewrite/test/guest.c
	$(call say,GUEST)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -static-pie -fPIE -pthread -o $@ $<
$(rewrite_dir)/musl: bee/rewrite/test/guest.c
	$(call say,GUEST)
	$(Q)mkdir -p $(@D)
	$(Q)$(MUSL) -O2 -static -o $@ $<
$(rewrite_dir)/vectors: bee/rewrite/test/guest.c
	$(call say,GUEST)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O3 -mavx512f -mavx512bw -mavx512vl -fopenmp -static \
		-o $@ $< 2>/dev/null
$(rewrite_dir)/golang: bee/rewrite/test/golang/guest.go
	$(call say,GUEST)
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ $<
rewrite_programs = $(rewrite_guests) /bin/busybox /bin/bash-static \
	$(shell $(GO) env GOROOT)/bin/gofmt

CHECK_SUITES += bee-rewrite bee-rewrite-native bee-rewrite-cover \
	bee-rewrite-lengths
suite_bee-rewrite = $(rewrite_dir)/unit
suite_bee-rewrite_needs = $(rewrite_dir)/unit
CHECK_SUITES += bee-rewrite-classes bee-rewrite-eh bee-rewrite-emit \
	bee-rewrite-map
suite_bee-rewrite-classes = $(rewrite_dir)/classes
suite_bee-rewrite-classes_needs = $(rewrite_dir)/classes
suite_bee-rewrite-eh = $(rewrite_dir)/eh
suite_bee-rewrite-eh_needs = $(rewrite_dir)/eh
suite_bee-rewrite-emit = $(rewrite_dir)/emit
suite_bee-rewrite-emit_needs = $(rewrite_dir)/emit
suite_bee-rewrite-map = $(rewrite_dir)/map
suite_bee-rewrite-map_needs = $(rewrite_dir)/map
suite_bee-rewrite-native = $(rewrite_dir)/native
suite_bee-rewrite-native_needs = $(rewrite_dir)/native
suite_bee-rewrite-cover = $(rewrite_dir)/cover $(rewrite_programs) \
	/usr/bin/gpgv-static /sbin/e2fsck.static /usr/bin/dar_static
suite_bee-rewrite-cover_needs = $(rewrite_dir)/cover $(rewrite_guests)
suite_bee-rewrite-lengths = sh bee/rewrite/test/lengths.sh \
	$(rewrite_dir)/lengths $(rewrite_programs)
suite_bee-rewrite-lengths_needs = $(rewrite_dir)/lengths $(rewrite_guests)

FUZZERS += bee-rewrite
fuzz_bee-rewrite = $(B)/fuzz/bee-rewrite
fuzz_bee-rewrite_needs = $(B)/fuzz/bee-rewrite
$(B)/fuzz/bee-rewrite: bee/rewrite/fuzz/rewrite.c $(REWRITE_SRC) \
		$(wildcard bee/rewrite/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)

CHECK_SUITES += bee-rewrite-step
suite_bee-rewrite-step = $(rewrite_dir)/step
suite_bee-rewrite-step_needs = $(rewrite_dir)/step
