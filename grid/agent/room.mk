# SPDX-License-Identifier: MIT
# The agent's tests: as a Linux program, and under Wine as a Windows program.

agent_t := $(B)/test/agent
agent_src := grid/agent

CHECK_SUITES += agent
suite_agent = $(GO) test -count=1 -json ./$(agent_src)
suite_agent_kind = go
suite_agent_needs = $(B)/bin/bee

$(agent_t)/worker: $(agent_src)/testdata/worker.c include/skep/session.h \
		base/sha256.c base/sha256.h
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static $(CFLAGS_HOST) -pthread -o $@ $(filter %.c,$^)

$(agent_t)/agent.test.exe: FORCE | $(B)/bin/skep.exe
	$(Q)mkdir -p $(@D)
	$(Q)$(windows_test) -o $@ ./$(agent_src)

$(B)/test/wine/cheat.exe: $(B)/obj/mingw/tests/wine/cheat.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(MINGW) -s -o $@ $^

TEST_SUITES += wine-agent
suite_wine-agent = $(STEADY) sh tests/wine/go_tests.sh $(B) agent
# It takes a minute; the server of Wine 8 has looped without end (docs/windows.md).
suite_wine-agent_deadline = 240
suite_wine-agent_needs = $(agent_t)/worker $(agent_t)/agent.test.exe \
	$(B)/test/wine/cheat.exe $(B)/bin/bee.exe \
	$(call wine_prefix,agent)

# Most mutants fail in tests that take no time: the others take a minute.
MUTANTS_SUITES += agent-quick
suite_agent-quick = $(suite_agent) -parallel 8 \
	-skip '^Test(Limits|Confined.*|ProcessorTimeOfACall|ComputingWorkerIsNotSilent|DeafAndSilentWorkers|Deaths|PoisonedCache)$$'
suite_agent-quick_kind = go
suite_agent-quick_needs = $(suite_agent_needs)
MUTANTS += grid/agent
mutants_grid/agent = agent agent-quick
