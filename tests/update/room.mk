# SPDX-License-Identifier: MIT
# The first set of fixes, from patches cut out of two versions of the source to
# a running kernel and back: both sources are fetched once, then it is hours.
SOAKS += dynamos-fixes
soak_dynamos-fixes = $(GO) run ./tests/update/sweep run tests/update/fixes.txt \
	6.1.192-2 $(B)/update/fixes image && $(GO) test -count=1 -v -timeout 2h \
	-run '^TestSoakUpdateFixes$$' ./tests/vm
soak_dynamos-fixes_needs = $(vm_needs) $(B)/bin/skep \
	$(B)/kmod/6.1.176-1/dynamos/dynamos.ko $(B)/test/vm/dynamos_enter

# Fixes of all parts of the kernel: those that could be built are loaded, reverted and
# unloaded with the modules that they change.
SOAKS += dynamos-drawn
soak_dynamos-drawn = $(GO) run ./tests/update/sweep run tests/update/drawn.txt \
	6.1.192-2 $(B)/update/drawn && $(GO) test -count=1 -v -timeout 2h \
	-run '^TestSoakUpdateDrawn$$' ./tests/vm
soak_dynamos-drawn_needs = $(vm_needs) $(B)/bin/skep \
	$(B)/kmod/6.1.176-1/dynamos/dynamos.ko

$(B)/test/vm/dynamos_enter: $(B)/obj/gcc/tests/vm/guest/dynamos_enter.o
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^
