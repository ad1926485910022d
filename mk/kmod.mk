# SPDX-License-Identifier: MIT
# Kernels, and Skep's modules for each series of KMOD_SERIES. A room describes a
# module by
#
#   KMODS += name                     or KMODS_ASIDE: built only if a target
#                                     needs it, not by `make kmod`
#   kmod_name = room/kmod             folder with the Kbuild file
#   kmod_name_with = room/core ...    other folders that this Kbuild refers to
#
# and gets $(B)/kmod/<series>/<name>/<name>.ko for each series. It gets the same
# for each package version in kmod_name_also. Kbuild runs in a copy of these
# folders below $(B), where $(SKEP) is the top of the tree:
#
#   obj-m := name.o
#   name-y := main.o ../core/ring.o
#   ccflags-y := -I$(SKEP)/include
#
# No source file may have the name of its module: call the first one main.c.
# Every warning of gcc (W=1), sparse and modpost is an error.

# Kernels with all checks take long to build and outlive `make clean`.
DEBUG_KERNELS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/skep/kernel
kernel_dir = $(if $(filter %-debug,$(1)),$(DEBUG_KERNELS),$(B)/kernel)/$(1)

.PHONY: kernels kmod
SLOW += kernels
kernels: $(foreach s,$(KMOD_SERIES),$(call kernel_dir,$(s))/release) ## fetch Debian's kernels for the virtual machines
kmod: $(foreach s,$(KMOD_SERIES),$(foreach m,$(KMODS),$(B)/kmod/$(s)/$(m)/$(m).ko)) ## build the kernel modules for every kernel (KMOD_SERIES="6.1 6.12")

FETCH := $(B)/tool/fetch
$(FETCH): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./lab/fetch

# A kernel that is already there needs neither the network nor the tool.
define kernel_rule
$(call kernel_dir,$(1))/release: | $(if $(wildcard $(call kernel_dir,$(1))/release),,$(FETCH))
	$(Q)$(FETCH) $(B) $(1)
endef
kmod_also := $(filter-out $(KMOD_SERIES),$(sort $(foreach m,$(KMODS),$(kmod_$(m)_also))))
$(foreach s,$(KMOD_SERIES) $(kmod_also),$(eval $(call kernel_rule,$(s))))

# Folders are prerequisites too, because removing a file changes only its folder.
# The module's own make gets the job slots of this make, but none of its
# variables. `make -n` does not run it.
define module_rule
$(B)/kmod/$(1)/$(2)/$(2).ko: $(call kernel_dir,$(1))/release mk/kmod.mk mk/kmod.sh \
		$(shell find $(kmod_$(2)) $(kmod_$(2)_with) -type f -o -type d)
	$(if $(V),,@printf '  %-7s %s\n' KMOD '$(1) $(2)')
	+$(Q)$$(if $$(dry),: )MAKEFLAGS='$$(filter -j% --jobserver%,$$(MAKEFLAGS))' V=$(V) sh mk/kmod.sh \
		$(call kernel_dir,$(1)) $(B)/kmod/$(1)/$(2) $(2) $(kmod_$(2)) $(kmod_$(2)_with)
endef
$(foreach m,$(KMODS) $(KMODS_ASIDE),$(foreach s,$(sort $(KMOD_SERIES) $(kmod_$(m)_also)),$(eval $(call module_rule,$(s),$(m)))))
