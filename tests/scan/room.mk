# SPDX-License-Identifier: MIT
# The text of all programs of bee's suites, as bee rewrote it, decoded by objdump.

SCAN := $(B)/tool/scan
$(SCAN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/scan

scan_built = $(CONF_PROGRAMS) $(BEE_GUESTS) $(bee_t)/sqlite-glibc $(rewrite_guests) \
	$(B)/bin/eigen.rex $(addprefix $(B)/test/grid/worker-,glibc musl)
# What a distribution built; what is not installed is skipped. make test has the first.
scan_first = /bin/busybox
scan_found = /bin/bash-static /usr/bin/gpgv-static /sbin/e2fsck.static \
	/usr/bin/dar_static $(shell $(GO) env GOROOT)/bin/gofmt
scan_run = $(SCAN) -build $(B) $(1) $(scan_built) $(scan_first)

# In make test one program in eight of each large folder, whose programs share a C library;
# in make test-full all, and the tests of Go's run-time.
TEST_SUITES += bee-scan wine-bee-scan
FULL_SUITES += bee-scan-all wine-bee-scan-all

scan_linux = $(call scan_run,$(1) -bee "$(B)/bin/bee-guard $(B)/bin/bee" \
	-leak "$(B)/bin/bee-guard $(bee_t)/bee-leak")
suite_bee-scan = $(call scan_linux,-one-in 16)
suite_bee-scan_needs = $(SCAN) $(scan_built) $(B)/bin/bee $(B)/bin/bee-guard \
	$(bee_t)/bee-leak
suite_bee-scan-all = $(call scan_linux) $(scan_found) $(go_runtime)
suite_bee-scan-all_needs = $(suite_bee-scan_needs) $(go_runtime)
suite_bee-scan-all_deadline = 1200

scan_wine = $(STEADY) $(call scan_run,$(1) -prefix $(B)/wine \
	-bee "$(B)/bin/bee-guard wine $(B)/bin/bee.exe" \
	-twin "$(B)/bin/bee-guard $(B)/bin/bee" \
	-leak "$(B)/bin/bee-guard wine $(bee_win_leak)")
suite_wine-bee-scan = $(call scan_wine,-one-in 16)
suite_wine-bee-scan_needs = $(SCAN) $(scan_built) $(B)/bin/bee $(B)/bin/bee.exe \
	$(B)/bin/bee-guard $(bee_win_leak)
suite_wine-bee-scan-all = $(call scan_wine) $(scan_found) $(go_runtime)
suite_wine-bee-scan-all_needs = $(suite_wine-bee-scan_needs) $(go_runtime)
suite_wine-bee-scan-all_deadline = 1200
