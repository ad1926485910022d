# SPDX-License-Identifier: MIT
# Mutants: a room's code is changed in one place, and one of its quick suites
# must fail. A room defines
#
#   MUTANTS += room/folder
#   mutants_room/folder = suite-a other-*      of CHECK_SUITES; * for any letters
#   MUTANTS_SUITES += room-quick               part of a slow suite, run first
#   mutants_without_room/folder = file ...     not mutated: only VM suites test them

# How many mutants of each room; which ones (another seed chooses others); how
# many at a time; the marks of mutants, for example of the survivors of the last
# run: if any are given, only these are tried.
N := 100
SEED := 1
JOBS := 1
MARKS :=

MUTANTS_TOOL := $(B)/tool/mutants
$(MUTANTS_TOOL): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/mutants

mutants_suites = $(filter $(subst *,%,$(mutants_$(1))),$(CHECK_SUITES) $(MUTANTS_SUITES))
mutants_lines = $(foreach s,$(call mutants_suites,$(1)),$(1)$(tab)$(strip \
	$(suite_$(s)_needs))$(tab)$(call suite_line,$(s)))

ifneq ($(filter mutants,$(MAKECMDGOALS)),)
mutants_rooms := $(foreach r,$(ROOM),$(or $(filter $(subst *,%,$(r)),$(MUTANTS)),\
	$(error make mutants: no room '$(r)'; there are: $(sort $(MUTANTS)))))
$(if $(mutants_rooms),,$(error make mutants: name one of: ROOM=$(sort $(MUTANTS))))
$(foreach r,$(mutants_rooms),$(if $(call mutants_suites,$(r)),,\
	$(error mutants_$(r) names no quick suite: $(mutants_$(r)))))
endif

.PHONY: mutants
mutants: ## change a room's code and see its quick suites fail (ROOM=abi N=100 SEED=1)
mutants: $(MUTANTS_TOOL) $(RUNNER) $(foreach r,$(mutants_rooms),$(call \
		needs,$(call mutants_suites,$(r))))
	$(if $(dry),,$(shell mkdir -p $(B)/mutants)$(file >$(B)/mutants/rooms,$(foreach \
		r,$(mutants_rooms),$(call mutants_lines,$(r)))))$(Q)$(MUTANTS_TOOL) \
		-rooms $(B)/mutants/rooms -n '$(N)' -seed '$(SEED)' -jobs '$(JOBS)' -marks '$(MARKS)' \
		-without '$(foreach r,$(mutants_rooms),$(mutants_without_$(r)))'
