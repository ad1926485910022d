# SPDX-License-Identifier: MIT
# Measurements of bee and of remote calls, each with its peer beside it in the
# same run. They print a table; lines that begin with "result" go into files of
# build/bench/results. `make bench` writes both into docs/results/bench, as a page
# and a picture. The benches judge nothing.

BENCH := $(B)/bench
bench_dir := tests/bench

$(BENCH)/linux/%: $(bench_dir)/c/%.c
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) -static $(CFLAGS_HOST) $(DEPS) -MF $(B)/obj/bench/$*.d \
		-MT $@ -o $@ $< -lm
$(BENCH)/windows/%.exe: $(bench_dir)/c/%_win32.c
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(MINGW) $(CFLAGS_HOST) $(DEPS) -MF $(B)/obj/bench/$*.win.d \
		-MT $@ -o $@ $< -lsynchronization

BENCH_RUN := $(B)/tool/bench
$(BENCH_RUN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./$(bench_dir)/run

# Shell command that runs a bench and writes its page: bench_page NAME.
bench_page = $(BENCH_RUN) page $(1) $(call one_word,$(bench_$(1)))

bench_common := $(BENCH_RUN) $(B)/bin/bee $(B)/bin/bee.exe $(call wine_prefix)

BENCHES += bee_call bee_entry bee_compute bee_processes
bench_bee_call := $(BENCH_RUN) call
bench_bee_call_needs := $(bench_common) $(BENCH)/linux/calls \
	$(BENCH)/windows/calls.exe
bench_bee_entry := $(BENCH_RUN) entry
bench_bee_entry_needs = $(bench_common) $(BENCH)/windows/empty.exe \
	$(CONF)/glibc/hello $(CONF)/musl/hello $(CONF)/go/panics
bench_bee_processes := $(BENCH_RUN) processes
bench_bee_processes_needs := $(bench_common) $(BENCH)/linux/processes
BENCHES += owner
bench_owner := $(BENCH_RUN) owner
bench_owner_needs = $(BENCH_RUN) $(B)/bin/skep $(BENCH)/linux/owner \
	$(BENCH)/linux/spin $(CONF)/glibc/hello
# In a guest where CRIU cannot work with this kernel.
BENCHES += snapshot
bench_snapshot := $(BENCH_RUN) snapshot
bench_snapshot_needs = $(BENCH_RUN) $(B)/bin/bee $(BENCH)/linux/snapshot \
	kernels $(B)/bin/skep-guest
bench_bee_compute := $(BENCH_RUN) compute
bench_bee_compute_needs := $(bench_common) $(BENCH)/linux/compute

# Remote calls: a module and a master of their own.
$(BENCH)/rpc/bench.rex: $(addprefix $(bench_dir)/rpc/bench.,idl c h) \
		$(B)/bin/skep $(B)/lib/libskepworker.a
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen --build $(bench_dir)/rpc/bench.idl \
		$(bench_dir)/rpc/bench.c -o $@
$(BENCH)/rpc/master: $(bench_dir)/rpc/master.c $(B)/lib/libskeprpc.a
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) $(CFLAGS_HOST) -Igrid/include -pthread $(DEPS) \
		-MF $(B)/obj/bench/rpc_master.d -MT $@ -o $@ $^

bench_rpc_common := $(BENCH_RUN) $(B)/bin/skep $(BENCH)/rpc/master \
	$(BENCH)/rpc/bench.rex
BENCHES += rpc_call rpc_argument rpc_masters
bench_rpc_call := $(BENCH_RUN) rpc
bench_rpc_call_needs := $(bench_rpc_common)
bench_rpc_argument := $(BENCH_RUN) argument
bench_rpc_argument_needs := $(bench_rpc_common)
bench_rpc_masters := $(BENCH_RUN) masters
bench_rpc_masters_needs := $(bench_rpc_common)

# MPI programs over O2G, the MPI's own TCP and UCX.
$(BENCH)/mpi/measure: $(bench_dir)/mpi/measure.c $(B)/mpi/ready
	$(call say,MPICC)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/mpi/mpich/bin/mpicc -std=gnu11 -O2 -g -Wall -Wextra \
		-Wshadow -Werror -o $@ $<

# mpi_delay needs root, for two hosts with a wire between them.
BENCHES += mpi mpi_delay
bench_mpi_needs = $(BENCH_RUN) $(BENCH)/mpi/measure $(B)/bin/skep \
	$(B)/lib/libo2g-fi.so
bench_mpi = $(BENCH_RUN) mpi
bench_mpi_delay = $(BENCH_RUN) mpi_delay
bench_mpi_delay_needs = $(bench_mpi_needs)

# What a receiver with many connections does for a message: instructions in a
# guest, beside the provider of MPICH's own libfabric.
$(BENCH)/o2g/receiver: $(bench_dir)/o2g/receiver.c
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) $(CFLAGS_HOST) $(DEPS) -MF $(B)/obj/bench/o2g_receiver.d \
		-MT $@ -o $@ $< -lfabric

BENCHES += o2g_instructions
bench_o2g_instructions = $(BENCH_RUN) o2g_instructions
bench_o2g_instructions_needs = $(BENCH_RUN) $(BENCH)/o2g/receiver kernels \
	$(B)/bin/skep-guest $(COUNT_PLUGIN) $(B)/lib/libo2g-fi.so $(B)/mpi/ready

# The paper's control experiment, in guests: the user engine, the kernel engine
# and the MPI's own TCP.
o2g_kernel_programs := $(addprefix $(BENCH)/o2g-kernel/,held sort flood)
$(o2g_kernel_programs): $(BENCH)/o2g-kernel/%: $(bench_dir)/o2g-kernel/%.c \
		$(bench_dir)/o2g-kernel/rank.h $(B)/mpi/ready
	$(call say,MPICC)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/mpi/mpich/bin/mpicc -std=gnu11 -O2 -g -Wall -Wextra \
		-Wshadow -Werror -o $@ $<
$(BENCH)/o2g-kernel/message: $(bench_dir)/o2g-kernel/message.c
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) $(CFLAGS_HOST) $(DEPS) -MF $(B)/obj/bench/o2g_message.d \
		-MT $@ -o $@ $< -lfabric

BENCHES += o2g-kernel
bench_o2g-kernel = $(BENCH_RUN) o2g-kernel
bench_o2g-kernel_needs = $(BENCH_RUN) $(BENCH)/o2g-kernel/message \
	$(o2g_kernel_programs) kernels kmod $(B)/bin/skep-guest \
	$(COUNT_PLUGIN) $(B)/bin/skep $(B)/lib/libo2g-fi.so \
	$(B)/test/vm/o2g_shell

# What it costs to count the calls of a kernel's functions, in instructions.
$(BENCH)/dynamos/weigh: $(bench_dir)/dynamos/weigh.c \
		$(addprefix $(B)/obj/gcc/tests/vm/guest/dynamos_,rival.o use.o)
	$(call say,BENCH)
	$(Q)mkdir -p $(@D) $(B)/obj/bench
	$(Q)$(CC) -static $(CFLAGS_HOST) $(DEPS) -MF $(B)/obj/bench/weigh.d \
		-MT $@ -o $@ $^

BENCHES += dynamos
bench_dynamos = $(BENCH_RUN) dynamos
bench_dynamos_needs = $(BENCH_RUN) $(BENCH)/dynamos/weigh kernels kmod \
	$(foreach s,$(KMOD_SERIES),$(B)/kmod/$(s)/dynamos_weigh/dynamos_weigh.ko) \
	$(B)/bin/skep-guest $(COUNT_PLUGIN)

# How many functions the builder proves to be those of the shipped image.
BENCHES += update-gate
bench_update-gate = $(GO) run ./tests/update/sweep gate tests/update/fixes.txt
bench_update-gate_needs = $(B)/kernel/6.1.176-1/release

# A page of files that others sent.
RECEIVED := $(B)/tool/received
$(RECEIVED): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./$(bench_dir)/received
results_needs = $(RECEIVED)
results_run = $(RECEIVED) -o $(B)/results.html $(FILE)

CHECK_SUITES += report
suite_report = $(GO) test -count=1 -json ./internal/report ./tests/bench/received
suite_report_kind = go

# The overview of all results: figures stand in claims.tbl as their pages have
# them.
CLAIMS := $(B)/tool/claims
$(CLAIMS): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./$(bench_dir)/claims
claims_needs = $(CLAIMS)
claims_run = $(CLAIMS) docs/results

CHECK_SUITES += claims
suite_claims = $(GO) test -count=1 -json ./tests/bench/claims ./tests/bench/run
suite_claims_kind = go
