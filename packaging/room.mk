# SPDX-License-Identifier: MIT
# Installation and Debian packages. packaging/files.tbl lists the files.

PREFIX := /usr/local
LIBDIR = $(PREFIX)/lib
SKEP_VERSION := $(shell sed -n 's/^const version = "\(.*\)"$$/\1/p' cmd/skep/version.go)
one_word = '$(subst ','\'',$(1))'
install_files = sh packaging/install.sh $(1) $(B) $(call one_word,$(DESTDIR)) $(call one_word,$(PREFIX)) \
	$(call one_word,$(LIBDIR)) '$(SKEP_VERSION)'

.PHONY: install uninstall
install: all ## install programs, libraries, man pages and modules' sources (DESTDIR= PREFIX=/usr/local)
	$(Q)$(if $(dry),: )$(call install_files,put)
uninstall: ## remove what make install put there (DESTDIR= PREFIX=/usr/local)
	$(Q)$(if $(dry),: )$(call install_files,remove)

# Builds and runs the hello example with an installed Skep, without the source tree.
TEST_SUITES += install
suite_install = sh tests/packages/install.sh $(B)
suite_install_needs = $(PROGRAMS)

# The version of the packages. Tests of upgrades set a higher one.
DEB_VERSION = $(SKEP_VERSION)
.PHONY: deb
deb: all ## make Debian packages in build/deb
	$(Q)$(if $(dry),: )sh packaging/deb.sh $(B) $(B)/deb '$(DEB_VERSION)'

# Checks the packages' contents, and installs them in a scratch root.
TEST_SUITES += deb
suite_deb = sh tests/packages/deb.sh $(B) '$(SKEP_VERSION)'
suite_deb_needs = $(PROGRAMS)

# Runs the services of a user under a systemd of the test's own.
TEST_SUITES += service-user
suite_service-user = sh tests/packages/user.sh $(B)
suite_service-user_needs = $(PROGRAMS)

# Installs, upgrades, removes and purges the packages in new Debian roots.
PACKAGE_SUITES := packages-bookworm packages-trixie
FULL_SUITES += $(PACKAGE_SUITES)
$(foreach s,$(PACKAGE_SUITES),\
	$(eval suite_$(s) = sh tests/packages/clean.sh $$(B) $(s:packages-%=%) '$$(SKEP_VERSION)')\
	$(eval suite_$(s)_needs = $$(PROGRAMS))\
	$(eval suite_$(s)_deadline = 3600))

# Builds from the source archive in new Debian roots, with their own compilers.
SOURCE_SUITES := source-bookworm source-trixie
FULL_SUITES += $(SOURCE_SUITES)
$(foreach s,$(SOURCE_SUITES),\
	$(eval suite_$(s) = sh tests/packages/source.sh $$(B) $(s:source-%=%) '$$(SKEP_VERSION)')\
	$(eval suite_$(s)_needs = $$(RELEASE)/SHA256SUMS)\
	$(eval suite_$(s)_deadline = 5400))

# Boots new Debian systems in the lab, and types there what users of the packages
# type, with services, reboots and an upgrade under a program. In the emulator this
# takes an hour and more.
BOOTED_SUITES := booted-bookworm booted-trixie
FULL_SUITES += $(BOOTED_SUITES)
booted_test_bookworm = Bookworm
booted_test_trixie = Trixie
$(foreach s,$(BOOTED_SUITES),\
	$(eval suite_$(s) = SKEP_VERSION='$$(SKEP_VERSION)' $$(GO) test -count=1 -json \
		-run '^Test$$(booted_test_$(s:booted-%=%))$$$$' ./tests/packages)\
	$(eval suite_$(s)_kind = go)\
	$(eval suite_$(s)_needs = $$(PROGRAMS) kernels)\
	$(eval suite_$(s)_deadline = 14400))

# Upgrades the former release (see tests/apart/room.mk) to this one, and this one to the
# next, in booted systems with hub, agents, modules, an update and a program in use.
former_debs = $(B)/_former/$(FORMER)-packages
$(B)/_former/%-packages/made: tests/packages/former.sh
	$(call say,FORMER)
	$(Q)sh $< '$*' $(@D) '$(MAKE_COMMAND)'
UPGRADED_SUITES := upgraded-bookworm upgraded-trixie
FULL_SUITES += $(UPGRADED_SUITES)
$(foreach s,$(UPGRADED_SUITES),\
	$(eval suite_$(s) = SKEP_VERSION='$$(SKEP_VERSION)' FORMER=$$(abspath $$(former_debs)) \
		$$(GO) test -count=1 -json \
		-run '^TestUpgraded$$(booted_test_$(s:upgraded-%=%))$$$$' ./tests/packages)\
	$(eval suite_$(s)_kind = go)\
	$(eval suite_$(s)_needs = $$(PROGRAMS) kernels $$(former_debs)/made)\
	$(eval suite_$(s)_deadline = 14400))

FULL_SUITES += packages-lintian
# Lintian leaves temporary files.
suite_packages-lintian = sh packaging/deb.sh $(B) $(B)/test/lintian '$(SKEP_VERSION)' && \
	mkdir -p $(B)/test/lintian/tmp && r=0 && \
	TMPDIR=$(abspath $(B))/test/lintian/tmp lintian --allow-root --fail-on error,warning \
	$(B)/test/lintian/*.deb || r=$$?; rm -rf $(B)/test/lintian; exit $$r
suite_packages-lintian_kind = exit
suite_packages-lintian_deadline = 1200
suite_packages-lintian_needs = $(PROGRAMS)
