# SPDX-License-Identifier: MIT
# Hubs and agents that are killed or stopped in the middle of a run.

chaos_t := $(B)/test/chaos

chaos_masters := $(chaos_t)/master $(chaos_t)/large $(chaos_t)/called

$(chaos_masters): $(chaos_t)/%: $(B)/obj/gcc/tests/chaos/work/%.o $(B)/lib/libskeprpc.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
$(chaos_masters:$(chaos_t)/%=$(B)/obj/gcc/tests/chaos/work/%.o): CFLAGS_HOST += -Igrid/include
chaos_workers := $(chaos_t)/chaos.rex $(chaos_t)/turns.rex

$(chaos_workers): $(chaos_t)/%.rex: tests/chaos/work/%.idl tests/chaos/work/%.c \
		tests/chaos/work/chaos.h $(B)/bin/skep $(B)/lib/libskepworker.a
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen --build tests/chaos/work/$*.idl tests/chaos/work/$*.c -o $@

TEST_SUITES += chaos
suite_chaos = BUILD=$(abspath $(B)) $(GO) test -count=1 -json ./tests/chaos
suite_chaos_kind = go
suite_chaos_deadline = 600
suite_chaos_needs = $(B)/bin/skep $(chaos_masters) $(chaos_workers)

SOAKS += grid-chaos
soak_grid-chaos = BUILD=$(abspath $(B)) SKEP_CHAOS_TIME=1h SKEP_CHAOS_SEED=$$(date +%s) \
	$(GO) test -count=1 -v -timeout 3h ./tests/chaos
soak_grid-chaos_needs = $(suite_chaos_needs)
