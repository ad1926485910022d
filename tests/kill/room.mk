# SPDX-License-Identifier: MIT
# Runs that meet trouble: the journeys of tests/journey -kill, with a module and
# a master of their own. One cluster has a Linux node and a Windows node, so the
# runs under Wine show both; those with two Linux nodes are for hands.

kill_t := $(B)/test/kill

$(kill_t)/master: $(B)/obj/gcc/tests/kill/master.o $(B)/lib/libskeprpc.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
$(B)/obj/gcc/tests/kill/master.o: CFLAGS_HOST += -Igrid/include
$(kill_t)/work.rex: tests/kill/work.idl tests/kill/work.c tests/kill/work.h \
		$(B)/bin/skep $(B)/lib/libskepworker.a
	$(call say,GEN)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen --build tests/kill/work.idl tests/kill/work.c -o $@

# What is no module.
$(kill_t)/dynamic.rex: /bin/true
	$(Q)mkdir -p $(@D) && cp $< $@
$(kill_t)/plain.rex: $(CONF)/glibc/hello
	$(Q)mkdir -p $(@D) && cp $< $@
$(kill_t)/cut.rex: $(kill_t)/work.rex
	$(Q)head -c 1000 $< >$@
$(kill_t)/text.rex: tests/kill/room.mk
	$(Q)mkdir -p $(@D) && cp $< $@

TEST_SUITES += kill-wine
suite_kill-wine = $(STEADY) $(JOURNEY) -kill -on wine
suite_kill-wine_needs = $(JOURNEY) $(B)/bin/skep $(B)/bin/skep.exe \
	$(B)/bin/bee.exe $(call wine_prefix,journey) $(kill_t)/master \
	$(addprefix $(kill_t)/,$(addsuffix .rex,work dynamic plain cut text))
