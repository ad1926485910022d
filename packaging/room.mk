# SPDX-License-Identifier: MIT
# What is installed, and Debian's packages of it. packaging/files.tbl is the list.

PREFIX := /usr/local
LIBDIR = $(PREFIX)/lib
SKEP_VERSION := $(shell sed -n 's/^const version = "\(.*\)"$$/\1/p' cmd/skep/version.go)
install_files = sh packaging/install.sh $(1) $(B) '$(DESTDIR)' '$(PREFIX)' '$(LIBDIR)' '$(SKEP_VERSION)'

.PHONY: install uninstall
install: all ## install programs, libraries, man pages and modules' sources (DESTDIR= PREFIX=/usr/local)
	$(Q)$(if $(dry),: )$(call install_files,put)
uninstall: ## remove what make install put there (DESTDIR= PREFIX=/usr/local)
	$(Q)$(if $(dry),: )$(call install_files,remove)

# hello from an installed tree, with the source tree out of sight.
TEST_SUITES += install
suite_install = sh tests/packages/install.sh $(B)
suite_install_needs = $(PROGRAMS)
suite_install_beside = yes
