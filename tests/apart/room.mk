# SPDX-License-Identifier: MIT
# Hubs, agents, commands and programs of the former release and of this tree together.

# The former release. As long as there is none, it is a commit from before changes of
# the protocol, of the hub's records and of the device of dynamos. Its build says that
# it is one revision behind.
FORMER := dea2afb5979097871e4c79dbef580cca47e870b7
former := $(B)/_former/$(FORMER)
former_made := $(former)/made

# In a clone without that commit nothing is made, and the suite skips.
$(former_made): tests/apart/former.sh
	$(call say,FORMER)
	$(Q)sh $< '$(FORMER)' $(former) '$(MAKE_COMMAND)'

TEST_SUITES += apart
suite_apart = BUILD=$(abspath $(B)) FORMER=$(abspath $(former)) $(GO) test -count=1 -json ./tests/apart
suite_apart_kind = go
suite_apart_deadline = 900
suite_apart_needs = $(former_made) $(B)/bin/skep $(chaos_t)/master $(chaos_t)/chaos.rex
