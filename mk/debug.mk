# SPDX-License-Identifier: MIT
# Kernels with KASAN, lockdep and kmemleak, built once into the user's cache
# from Debian's source. `make test` does not use them: the first build takes long.

DEBUG_SERIES := 6.1-debug
DEBUG_TOOL := $(B)/tool/debug

.PHONY: vm-debug vm-debug-test

vm-debug: $(DEBUG_TOOL) ## build a kernel with KASAN, lockdep and kmemleak (DEBUG_SERIES=6.12-debug)
	+$(Q)$(if $(dry),: )$(DEBUG_TOOL) $(B) lab/debug $(DEBUG_SERIES)

# A make for each, because its KMOD_SERIES differs from that of `make kmod`.
vm-debug-test: ## check that the debug kernel finds planted faults
	$(Q)$(MAKE) --no-print-directory kmod KMOD_SERIES='$(DEBUG_SERIES)'
	$(Q)$(MAKE) --no-print-directory $(B)/bin/skep-guest
	$(Q)SKEP_DEBUG_KERNEL='$(DEBUG_SERIES)' $(GO) test -count=1 -v -timeout 60m -tags debugkernel -run TestDebugKernel ./tests/vm

$(DEBUG_TOOL): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./lab/debug
