# SPDX-License-Identifier: MIT
# Tests that boot machines. A room adds its own:
#
#   VM_SUITES += vm-ROOM
#   suite_vm-ROOM = $(call vm_suite,Room)     runs TestRoom... of tests/vm
#   suite_vm-ROOM_kind = go
#   suite_vm-ROOM_needs = $(vm_needs) ...

vm_needs = kernels kmod $(B)/bin/skep-guest
vm_suite = $(GO) test -count=1 -json -run '^Test$(1)' ./tests/vm

# The long form of each test on each kernel; `make test` runs it on one.
FULL_SUITES += vm-both
suite_vm-both = SKEP_VM_BOTH=1 $(call vm_suite,(Count|Dynamos(Engine|Health)|Gang|Lab(Guard|Machine)|Linux|O2gKernel|Shimos|Sms|Update(Escape|Linger|Objects)))
suite_vm-both_kind = go
suite_vm-both_deadline = 3600
suite_vm-both_needs = $(foreach s,$(VM_SUITES),$(suite_$(s)_needs)) $(update_both)

# What tests in a guest have run there: programs of this computer.
vm_programs = $(B)/test/vm/check $(B)/test/vm/peer

VM_SUITES += vm-lab
suite_vm-lab = $(call vm_suite,Lab)
suite_vm-lab_kind = go
suite_vm-lab_deadline = 1260
suite_vm-lab_needs = $(filter-out kmod,$(vm_needs)) $(vm_programs) $(foreach \
	s,$(KMOD_SERIES),$(foreach m,trivial planted,$(B)/kmod/$(s)/$(m)/$(m).ko))

$(B)/test/vm/check: $(B)/obj/gcc/tests/vm/guest/check.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

$(B)/test/vm/peer: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/vm/guest/peer

# What users do with skep lab.
VM_SUITES += vm-user
suite_vm-user = $(call vm_suite,User)
suite_vm-user_kind = go
suite_vm-user_deadline = 1260
suite_vm-user_needs = $(vm_needs) $(B)/bin/skep $(B)/bin/sms.image

# The kernel engine of O2G: programs that use the device by themselves, one on
# libo2g, stock MPICH.
o2g_vm := $(B)/test/vm
$(o2g_vm)/o2g_device $(o2g_vm)/o2g_ulp $(o2g_vm)/o2g_hostile $(o2g_vm)/o2g_wreck \
		$(o2g_vm)/o2g_bent $(o2g_vm)/o2g_share: $(o2g_vm)/%: \
		$(B)/obj/gcc/tests/vm/guest/%.o $(B)/obj/gcc-free/o2g/core/ring.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
$(o2g_vm)/o2g_wreck: $(addprefix $(B)/obj/gcc-free/o2g/core/,record.o aead.o chacha.o poly.o)
$(o2g_vm)/o2g_stop: $(B)/obj/gcc/tests/vm/guest/o2g_stop.o $(B)/lib/libo2g.a
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
# libo2g's own tests, as a guest can afford them: without sanitizers.
$(o2g_vm)/o2g_lib_%: $(B)/obj/gcc/o2g/test/%_test.o $(B)/lib/libo2g.a
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
$(o2g_vm)/o2g_capture: $(B)/obj/gcc/tests/vm/guest/o2g_capture.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^
$(o2g_vm)/o2g_shell: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/vm/guest/o2g_shell

VM_SUITES += vm-o2g
suite_vm-o2g = $(call vm_suite,O2g)
suite_vm-o2g_kind = go
suite_vm-o2g_deadline = 1260
suite_vm-o2g_needs = $(vm_needs) $(B)/bin/skep $(B)/lib/libo2g-fi.so \
	$(B)/test/o2g/app-wheel $(addprefix $(o2g_vm)/o2g_,device ulp bent hostile \
	wreck share stop capture shell $(addprefix lib_,message life fork trace death access unauthenticated sealed))

# All of it on each kernel, with all of mpi4py's tests: hours. Then the same
# programs on a kernel that looks for mistakes.
SOAKS += o2g-kernel o2g-debug
soak_o2g-kernel = SKEP_O2G_LONG=1 $(GO) test -count=1 -v -timeout 12h \
	-run '^TestO2g' ./tests/vm
soak_o2g-kernel_needs = $(suite_vm-o2g_needs) $(MPI_RUN)
soak_o2g-debug = $(MAKE) --no-print-directory kmod \
	KMOD_SERIES='$(DEBUG_SERIES)' && SKEP_DEBUG_KERNEL='$(DEBUG_SERIES)' \
	$(GO) test -count=1 -v -timeout 4h -tags debugkernel \
	-run '^TestO2gDebug$$' ./tests/vm
soak_o2g-debug_needs = $(suite_vm-o2g_needs)

# Gangs of programs and control groups.
$(B)/test/vm/gang_work: $(B)/obj/gcc/tests/vm/guest/gang_work.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
# Two gangs that together need 1.5 times the memory, switched in each way: a quarter of an hour.
FULL_SUITES += vm-paging
suite_vm-paging = $(call vm_suite,PagingOfGangs)
suite_vm-paging_kind = go
suite_vm-paging_deadline = 2400
suite_vm-paging_needs = $(filter-out kmod,$(vm_needs)) $(B)/bin/skep $(B)/test/vm/gang_work

# Limits of programs by control groups, and gangs in the same machine.
$(B)/test/vm/agent.test: FORCE | $(B)/bin/skep
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) test -c -tags guest -o $@ ./grid/agent
VM_SUITES += vm-agent
suite_vm-agent = $(call vm_suite,AgentLimits)
suite_vm-agent_kind = go
suite_vm-agent_deadline = 900
suite_vm-agent_needs = $(filter-out kmod,$(vm_needs)) $(B)/test/vm/agent.test \
	$(B)/test/agent/worker $(B)/bin/skep $(B)/test/vm/gang_work
