# SPDX-License-Identifier: MIT
# Measurements of bee, each with its peer beside it in the same run. They print
# a table and lines that begin with "result"; they judge nothing.

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

bench_common := $(BENCH_RUN) $(B)/bin/bee $(B)/bin/bee.exe

BENCHES += bee_call bee_entry bee_compute
bench_bee_call := $(BENCH_RUN) call
bench_bee_call_needs := $(bench_common) $(BENCH)/linux/calls \
	$(BENCH)/windows/calls.exe
bench_bee_entry := $(BENCH_RUN) entry
bench_bee_entry_needs = $(bench_common) $(BENCH)/windows/empty.exe \
	$(CONF)/glibc/hello $(CONF)/musl/hello $(CONF)/go/panics
bench_bee_compute := $(BENCH_RUN) compute
bench_bee_compute_needs := $(bench_common) $(BENCH)/linux/compute
