# SPDX-License-Identifier: MIT
# The text of all programs of bee's suites, as bee rewrote it, decoded by objdump.

SCAN := $(B)/tool/scan
$(SCAN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/scan

scan_built = $(CONF_PROGRAMS) $(BEE_GUESTS) $(bee_t)/sqlite-glibc $(rewrite_guests) \
	$(go_runtime) $(B)/bin/eigen.rex $(addprefix $(B)/test/grid/worker-,glibc musl)
# What a distribution built; what is not installed is skipped.
scan_found = /bin/busybox /bin/bash-static /usr/bin/gpgv-static \
	/sbin/e2fsck.static /usr/bin/dar_static $(shell $(GO) env GOROOT)/bin/gofmt
scan_run = $(SCAN) -build $(B) $(1) $(scan_built) $(scan_found)

TEST_SUITES += bee-scan wine-bee-scan
suite_bee-scan = $(call scan_run,-bee "$(B)/bin/bee-guard $(B)/bin/bee" \
	-leak "$(B)/bin/bee-guard $(bee_t)/bee-leak")
suite_bee-scan_needs = $(SCAN) $(scan_built) $(B)/bin/bee $(B)/bin/bee-guard \
	$(bee_t)/bee-leak

suite_wine-bee-scan = $(STEADY) $(call scan_run,-prefix $(B)/wine \
	-bee "$(B)/bin/bee-guard wine $(B)/bin/bee.exe" \
	-twin "$(B)/bin/bee-guard $(B)/bin/bee" \
	-leak "$(B)/bin/bee-guard wine $(bee_win_leak)")
suite_wine-bee-scan_needs = $(SCAN) $(scan_built) $(B)/bin/bee $(B)/bin/bee.exe \
	$(B)/bin/bee-guard $(bee_win_leak)
