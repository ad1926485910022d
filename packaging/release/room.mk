# SPDX-License-Identifier: MIT
# make release: archives, licence notices, a bill of materials and checksums.
# The same commit and the same Debian packages give the same bytes, on any
# machine and at any time.

RELEASE := $(B)/release
RELEASE_TOOL := $(B)/tool/release
# All files get the time of the commit.
release_epoch = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)

$(RELEASE_TOOL): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./packaging/release

# Made anew each time, from the files that are built now.
.PHONY: release
release: $(RELEASE)/SHA256SUMS ## pack archives, notices, SBOM and checksums into build/release
$(RELEASE)/SHA256SUMS: all $(RELEASE_TOOL) FORCE
	$(call say,RELEASE)
	$(Q)rm -rf $(RELEASE)
	$(Q)sh packaging/release/stage.sh $(B) '$(SKEP_VERSION)'
	$(Q)$(RELEASE_TOOL) -version '$(SKEP_VERSION)' -epoch $(release_epoch) \
		-stage $(B)/release-stage -out $(RELEASE)
	$(Q)rm -rf $(B)/release-stage

TEST_SUITES += release
suite_release = env BUILD=$(abspath $(B)) $(GO) test -count=1 -json ./packaging/release
suite_release_kind = go
suite_release_needs = $(RELEASE)/SHA256SUMS

# Compares two builds, made in two folders at different times.
FULL_SUITES += release-twice
suite_release-twice = sh tests/release_twice.sh $(B)
suite_release-twice_deadline = 3600
