# SPDX-License-Identifier: GPL-2.0-only
# Packages of updates, built as users build them, and the tests that take them
# from a patch to a running kernel. The kernels lack the fix that is taken. The
# second one's source takes minutes to prepare: its walk is the soak.

update_kernels = 6.1.176-1
update_soak_kernels = 6.12
kmod_dynamos_also = 6.1.176-1
kmod_dynamos_pend_also = 6.1.176-1

update_out := $(B)/update
update_sources := $(filter-out %_test.go,$(wildcard dynamos/update/*.go \
	dynamos/update/*/*.go)) $(wildcard include/skep/*.h)

# $(1) kernel, $(2) name, $(3) patch, $(4) more options
define update_rule
$(update_out)/$(1)/$(2).skepup: $(3) $(update_sources) | $(B)/bin/skep \
		$(B)/kernel/$(1)/release
	$$(call say,UPDATE)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(B)/bin/skep update build --kernel $(1) --name $(2) -o $$@ $(4) $(3)
update_packages_$(1) += $(update_out)/$(1)/$(2).skepup
endef
linger_patch = dynamos/updates/linger/linger-$(if $(filter \
	6.12%,$(1)),6.12,6.1).patch
linger_class = --class any --because 'each pick and each tick decides anew from \
	the queue as it is' --state 'the new variables begin with 0, which means \
	that no guest has a turn'
links_class = --class any --because \
	'each check stands on its own: no lock, no reference, no state'
allot_class = --class object --because 'a file is allotted in one way while it \
	is open' --object vfs_fallocate=0 --ends security_file_free=0
$(foreach k,$(update_kernels) $(update_soak_kernels),\
	$(eval $(call update_rule,$(k),arp,tests/vm/updates/arp.patch))\
	$(eval $(call update_rule,$(k),allot,tests/vm/updates/allot.patch,$(allot_class)))\
	$(eval $(call update_rule,$(k),arp_strict,tests/vm/updates/arp_strict.patch))\
	$(eval $(call update_rule,$(k),links,dynamos/updates/links/links.patch,$(links_class)))\
	$(eval $(call update_rule,$(k),linger,$(call linger_patch,$(k)),$(linger_class))))

# What outlives calls, for a kernel of each series.
allot_any = --class any --because 'calls agree on nothing'
keeps_class = --class any --because 'each check stands on its own'
gives_class = $(allot_any) --state 'each object is used where it is made'
$(foreach k,$(update_kernels) $(update_soak_kernels),\
	$(eval $(call update_rule,$(k),epoll,tests/vm/updates/epoll.patch))\
	$(eval $(call update_rule,$(k),stack,tests/vm/updates/stack.patch))\
	$(eval $(call update_rule,$(k),dummy_stats,tests/vm/updates/dummy.patch))\
	$(eval $(call update_rule,$(k),ext4_sync,tests/vm/updates/ext4.patch))\
	$(eval $(call update_rule,$(k),keeps,tests/vm/updates/keeps.patch,$(keeps_class)))\
	$(eval $(call update_rule,$(k),gives,tests/vm/updates/gives.patch,$(gives_class)))\
	$(eval $(call update_rule,$(k),late,tests/vm/updates/late.patch,$(allot_any)))\
	$(eval $(call update_rule,$(k),after,tests/vm/updates/after.patch,$(allot_any))))
# Those of the long form of a test, which runs on one kernel, and on the other for
# `make test-full T=vm-both`.
update_of = $(patsubst %,$(update_out)/$(1)/%.skepup,$(2))
update_escapes = $(call update_of,6.12,epoll keeps gives late after)
update_both = $(call update_of,6.1.176-1,epoll keeps gives late after) \
	$(call update_of,6.12,stack dummy_stats ext4_sync linger)

# What ends a machine, for `make test-full T=vm-update-nodes`.
$(eval $(call update_rule,6.1.176-1,oops,tests/vm/updates/oops.patch))
update_oops = $(call update_of,6.1.176-1,oops)

# Newer kernels have what it does.
$(eval $(call update_rule,6.1.176-1,arp_rcu,tests/vm/updates/arp_rcu.patch))

# The first one of a kernel prepares its source; others would only wait for it.
$(foreach k,$(update_kernels) $(update_soak_kernels),$(eval $(filter-out \
	%/arp.skepup,$(update_packages_$(k))): | $(update_out)/$(k)/arp.skepup))
SLOW += $(foreach k,$(update_kernels),$(update_packages_$(k))) $(update_escapes)

$(addprefix $(B)/test/vm/dynamos_,hammer wait keep linger): $(B)/test/vm/%: \
		$(B)/obj/gcc/tests/vm/guest/%.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

# $(1) kernels
update_needs = $(vm_needs) $(B)/bin/skep $(B)/test/vm/dynamos_hammer \
	$(addprefix $(B)/test/vm/dynamos_,wait keep linger) \
	$(foreach k,$(1),$(filter-out $(update_both) $(update_oops),$(update_packages_$(k))) \
	$(B)/kmod/$(k)/dynamos/dynamos.ko)

# Two suites, since a suite that failed once runs again whole.
VM_SUITES += vm-update
suite_vm-update = $(call vm_suite,Update(Escape|Linger|Objects|Shares|Walk))
suite_vm-update_kind = go
suite_vm-update_deadline = 1260
suite_vm-update_needs = $(call update_needs,$(update_kernels)) $(update_escapes)

VM_SUITES += vm-update-fleet
suite_vm-update-fleet = $(call vm_suite,Update(Rolled|Signed))
suite_vm-update-fleet_kind = go
suite_vm-update-fleet_deadline = 1260
suite_vm-update-fleet_needs = $(call update_needs,$(update_kernels))

# Two machines at a time, and those that panic and boot again.
FULL_SUITES += vm-update-nodes
suite_vm-update-nodes = $(call vm_suite,Update(Fleet|Panics))
suite_vm-update-nodes_kind = go
suite_vm-update-nodes_deadline = 1800
suite_vm-update-nodes_needs = $(call update_needs,$(update_kernels)) $(update_oops) \
	$(call update_of,6.12,arp) $(B)/lib/libo2g-fi.so $(B)/test/o2g/app-wheel $(o2g_vm)/o2g_shell

# The walk 25 times on each of the kernels.
FULL_SUITES += vm-update-walks
suite_vm-update-walks = for k in $(update_kernels) $(update_soak_kernels); do \
	SKEP_WALK_KERNEL=$$k SKEP_SOAK_CYCLES=25 $(GO) test -count=1 -json \
	-timeout 4h -run '^TestUpdateWalk$$' ./tests/vm || exit; done
suite_vm-update-walks_kind = go
suite_vm-update-walks_deadline = 7200
suite_vm-update-walks_needs = $(call update_needs,$(update_kernels) $(update_soak_kernels))
