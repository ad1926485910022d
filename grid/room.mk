# SPDX-License-Identifier: MIT
# What the control plane stands on: contracts, sessions, identity, the engine
# and blobs. Hub, scheduler and agent have fragments of their own.

# A suite for each package: its mutants need no other.
control_packages := session lasting ident engine blob proto
CHECK_SUITES += $(control_packages)
$(foreach p,$(control_packages),\
	$(eval suite_$(p) = $$(GO) test -count=1 -json ./grid/$(p)) \
	$(eval suite_$(p)_kind = go))

CHECK_SUITES += control
suite_control = $(GO) test -count=1 -json ./internal/lazy ./internal/place ./internal/uapi ./internal/atomicfile ./internal/lockdep ./internal/patience ./internal/peercred ./internal/proctree ./internal/cgroup
suite_control_kind = go

# libskepworker.a: linked into workers, whatever C library they use. So it
# takes no help of one compiler's headers: no fortified calls, no guard.

GRID_WORKER_FLAGS := $(CFLAGS_HOST) -fPIC -fno-stack-protector \
	-U_FORTIFY_SOURCE -ffunction-sections -fdata-sections
GRID_WORKER_SRC := $(sort $(wildcard grid/worker/*.c)) \
	grid/core/marshal.c grid/core/module.c grid/core/session.c \
	grid/lib/print.c base/sha256.c
grid_worker_obj := $(GRID_WORKER_SRC:%.c=$(B)/obj/worker/%.o)
grid_t := $(B)/test/grid

$(B)/obj/worker/%.o: %.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(GRID_WORKER_FLAGS) $(DEPS) -c -o $@ $<

PROGRAMS += $(B)/lib/libskepworker.a
$(B)/lib/libskepworker.a: $(grid_worker_obj)
	$(call say,AR)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@
	$(Q)ar rcs $@ $^

# The session's state machine under sanitizers, and against random peers.
$(grid_t)/session: $(B)/obj/san/grid/test/session_test.o \
		$(B)/obj/san/grid/core/session.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^
CHECK_SUITES += grid-session
suite_grid-session = $(grid_t)/session
suite_grid-session_needs = $(grid_t)/session

FUZZERS += grid-session
fuzz_grid-session_dir := $(B)/fuzz/grid-session.corpus
fuzz_grid-session = $(B)/fuzz/grid-session $(fuzz_grid-session_dir)
fuzz_grid-session_needs = $(B)/fuzz/grid-session
$(B)/fuzz/grid-session: grid/test/session_fuzz.c grid/core/session.c \
		grid/core/session.h include/skep/session.h
	$(call say,FUZZ)
	$(Q)mkdir -p $(fuzz_grid-session_dir)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)

# One worker, linked against both C libraries, driven by a scripted agent
# natively and under bee.
$(grid_t)/worker-glibc: LINKER = $(CC)
$(grid_t)/worker-musl: LINKER = $(MUSL)
$(grid_t)/worker-glibc $(grid_t)/worker-musl: \
		$(B)/obj/worker/grid/test/sample_worker.o $(B)/lib/libskepworker.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINKER) -static -pthread -o $@ $< -L$(B)/lib -lskepworker
$(grid_t)/worker: $(B)/obj/gcc/grid/test/worker_test.o \
		$(B)/obj/gcc/base/sha256.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) -o $@ $^
CHECK_SUITES += grid-worker
suite_grid-worker = $(grid_t)/worker $(B)
suite_grid-worker_needs = $(grid_t)/worker $(grid_t)/worker-glibc \
	$(grid_t)/worker-musl $(B)/bin/bee $(B)/bin/bee-guard

# The front of an MPI job, with ranks that say anything, and against random ones.
grid_job := $(addprefix grid/,worker/job.c core/marshal.c core/module.c \
	test/ranks_stub.c)
$(grid_t)/job_test: $(patsubst %.c,$(B)/obj/san/%.o,$(grid_job) \
		grid/test/job_test.c)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^
CHECK_SUITES += grid-job
suite_grid-job = $(grid_t)/job_test
suite_grid-job_needs = $(grid_t)/job_test

FUZZERS += grid-job
# It works in another folder.
fuzz_grid-job_dir := $(abspath $(B))/fuzz/grid-job.corpus
fuzz_grid-job = $(B)/fuzz/grid-job $(fuzz_grid-job_dir)
fuzz_grid-job_needs = $(B)/fuzz/grid-job $(fuzz_grid-job_dir)/seed
$(B)/fuzz/grid-job: grid/test/job_fuzz.c $(grid_job) grid/worker/job.h \
		grid/worker/ranks.h grid/test/ranks_stub.h
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)
$(fuzz_grid-job_dir)/seed: $(grid_t)/job_test
	$(Q)mkdir -p $(@D)
	$(Q)$< $@

# What a fingerprint is made of on Windows. Other tests of ident remove files in a way
# that Wine 8 lacks.
$(B)/test/ident/ident.test.exe: FORCE | $(B)/bin/skep.exe
	$(Q)mkdir -p $(@D)
	$(Q)$(windows_test) -o $@ ./grid/ident
TEST_SUITES += wine-ident
suite_wine-ident = $(STEADY) sh tests/wine/go_tests.sh $(B) ident Cards
suite_wine-ident_needs = $(B)/test/ident/ident.test.exe $(call wine_prefix,ident)

MUTANTS += grid/session
mutants_grid/session = session
MUTANTS += grid/lasting
mutants_grid/lasting = lasting
MUTANTS += grid/ident
mutants_grid/ident = ident
MUTANTS += grid/engine
mutants_grid/engine = engine
MUTANTS += grid/blob
mutants_grid/blob = blob
