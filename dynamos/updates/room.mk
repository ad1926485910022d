# SPDX-License-Identifier: MIT
# Packages of updates, built as users build them, and the tests that take them
# from a patch to a running kernel. The kernels lack the fix that is taken.

update_kernels = 6.1.176-1
kmod_dynamos_also = 6.1.176-1

update_out := $(B)/update
update_sources := $(wildcard internal/update/*.go internal/update/*/*.go \
	include/skep/*.h)

# $(1) kernel, $(2) name, $(3) patch, $(4) more options
define update_rule
$(update_out)/$(1)/$(2).skepup: $(3) $(update_sources) | $(B)/bin/skep \
		$(B)/kernel/$(1)/release
	$$(call say,UPDATE)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(B)/bin/skep update build --kernel $(1) --name $(2) -o $$@ $(4) $(3)
update_packages += $(update_out)/$(1)/$(2).skepup
endef
links_class = --class any --because \
	'each check stands on its own: no lock, no reference, no state'
$(foreach k,$(update_kernels),\
	$(eval $(call update_rule,$(k),arp,tests/vm/updates/arp.patch))\
	$(eval $(call update_rule,$(k),arp_strict,tests/vm/updates/arp_strict.patch))\
	$(eval $(call update_rule,$(k),links,dynamos/updates/links/links.patch,$(links_class))))

# The first one of a kernel prepares its source; others would only wait for it.
$(foreach k,$(update_kernels),$(eval $(addprefix $(update_out)/$(k)/,\
	arp_strict.skepup links.skepup): | $(update_out)/$(k)/arp.skepup))
SLOW += $(update_packages)

$(B)/test/vm/dynamos_hammer: $(B)/obj/gcc/tests/vm/guest/dynamos_hammer.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^

VM_SUITES += vm-update
suite_vm-update = $(call vm_suite,Update)
suite_vm-update_kind = go
suite_vm-update_deadline = 1260
suite_vm-update_needs = $(vm_needs) $(B)/bin/skep $(update_packages) \
	$(foreach k,$(update_kernels),$(B)/kmod/$(k)/dynamos/dynamos.ko) \
	$(B)/test/vm/dynamos_hammer
