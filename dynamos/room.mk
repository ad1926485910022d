# SPDX-License-Identifier: MIT
# DynAMOS. The core is pure and freestanding, the module is for Linux.
KMODS += dynamos
kmod_dynamos = dynamos/kmod
kmod_dynamos_with = dynamos/core base/errno.h include/skep

# Updates by hand for tests: the first link is against what dynamos.ko exports.
dynamos_by_hand := dynamos_try dynamos_hand dynamos_next
KMODS += $(dynamos_by_hand)
kmod_dynamos_try = tests/vm/kmod/dynamos_try
kmod_dynamos_try_with = include/skep
kmod_dynamos_hand = tests/vm/kmod/dynamos_hand
kmod_dynamos_hand_with = include/skep
kmod_dynamos_next = tests/vm/kmod/dynamos_next
kmod_dynamos_next_with = tests/vm/kmod/dynamos_hand include/skep
dynamos_ko = $(B)/kmod/$(1)/$(2)/$(2).ko
$(foreach s,$(KMOD_SERIES),$(eval $(foreach m,$(dynamos_by_hand),\
	$(call dynamos_ko,$(s),$(m))): $(call dynamos_ko,$(s),dynamos)))

DYNAMOS_CORE_SRC := $(sort $(wildcard dynamos/core/*.c))
dynamos_core_san := $(DYNAMOS_CORE_SRC:%.c=$(B)/obj/san-free/%.o)
$(B)/test/dynamos/%: $(B)/obj/san/dynamos/core/test/%.o $(dynamos_core_san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -o $@ $^

# dynamos/core/test/state.c is the suite dynamos-state, and so on.
dynamos_core_tests := $(notdir $(basename $(wildcard dynamos/core/test/*.c)))
define dynamos_core_suite
CHECK_SUITES += dynamos-$(1)
suite_dynamos-$(1) = $(B)/test/dynamos/$(1)
suite_dynamos-$(1)_needs = $(B)/test/dynamos/$(1)
endef
$(foreach t,$(dynamos_core_tests),$(eval $(call dynamos_core_suite,$(t))))

$(B)/fuzz/dynamos-%: dynamos/core/test/fuzz/%.c $(DYNAMOS_CORE_SRC) \
		$(wildcard dynamos/core/*.h include/skep/*.h)
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) $(WARN) \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-o $@ $(filter %.c,$^)

dynamos_fuzzers := $(notdir $(basename $(wildcard dynamos/core/test/fuzz/*.c)))
define dynamos_fuzzer
FUZZERS += dynamos-$(1)
fuzz_dynamos-$(1) = $(B)/fuzz/dynamos-$(1) -max_len=16384
fuzz_dynamos-$(1)_needs = $(B)/fuzz/dynamos-$(1)
endef
$(foreach t,$(dynamos_fuzzers),$(eval $(call dynamos_fuzzer,$(t))))

dynamos_try_vm := $(addprefix $(B)/test/vm/dynamos_,bad class engine held program)
$(dynamos_try_vm): $(B)/test/vm/%: $(B)/obj/gcc/tests/vm/guest/%.o \
		$(B)/obj/gcc/tests/vm/guest/dynamos_use.o
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^

# Others that want the same functions.
KMODS += dynamos_rival
kmod_dynamos_rival = tests/vm/kmod/dynamos_rival
# Memory that lacks.
KMODS += dynamos_scarce
kmod_dynamos_scarce = tests/vm/kmod/dynamos_scarce
# RCU callbacks that stay pending.
KMODS += dynamos_pend
kmod_dynamos_pend = tests/vm/kmod/dynamos_pend
$(B)/test/vm/dynamos_coexist: $(addprefix $(B)/obj/gcc/tests/vm/guest/dynamos_,\
		coexist.o rival.o use.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

# An update to be weighed.
KMODS_ASIDE += dynamos_weigh
kmod_dynamos_weigh = tests/vm/kmod/dynamos_weigh
kmod_dynamos_weigh_with = include/skep
$(foreach s,$(KMOD_SERIES),$(eval $(call dynamos_ko,$(s),dynamos_weigh): \
	$(call dynamos_ko,$(s),dynamos)))

# The engine with updates by hand; then classes, neighbours and bad updates.
VM_SUITES += vm-dynamos-engine vm-dynamos-health
suite_vm-dynamos-engine = $(call vm_suite,DynamosEngine)
suite_vm-dynamos-engine_kind = go
suite_vm-dynamos-engine_deadline = 1260
suite_vm-dynamos-engine_needs = $(vm_needs) \
	$(addprefix $(B)/test/vm/dynamos_,engine held program)
suite_vm-dynamos-health = $(call vm_suite,DynamosHealth)
suite_vm-dynamos-health_kind = go
suite_vm-dynamos-health_deadline = 1260
suite_vm-dynamos-health_needs = $(vm_needs) \
	$(addprefix $(B)/test/vm/dynamos_,class coexist bad)

# The engine with 1,000 cycles, on each kernel in turn. Then engine and health
# on a kernel that looks for mistakes.
SOAKS += dynamos dynamos-debug
soak_dynamos = SKEP_SOAK_CYCLES=1000 $(GO) test -count=1 -v -timeout 3h \
	-run '^TestDynamosEngine$$' ./tests/vm
soak_dynamos_needs = $(suite_vm-dynamos-engine_needs)
soak_dynamos-debug = $(MAKE) --no-print-directory kmod \
	KMOD_SERIES='$(DEBUG_SERIES)' && SKEP_DEBUG_KERNEL='$(DEBUG_SERIES)' \
	$(GO) test -count=1 -v -timeout 2h -tags debugkernel \
	-run '^TestDynamosDebug$$' ./tests/vm
soak_dynamos-debug_needs = $(B)/bin/skep-guest $(B)/test/vm/dynamos_engine \
	$(addprefix $(B)/test/vm/dynamos_,class coexist)

MUTANTS += dynamos/core
mutants_dynamos/core = $(addprefix dynamos-,$(dynamos_core_tests))
