# SPDX-License-Identifier: MIT
# Manual pages and scripts for completion. Those of commands and variables come
# from skep itself, the others from docs/man. Below $(B)/man they lie as below a
# system's share/man: MANPATH=build/man man skep-up.

MAN_SOURCES := $(wildcard docs/man/*.[1-9])
MAN_STAMP := $(B)/man/.stamp

$(MAN_STAMP): $(B)/bin/skep $(MAN_SOURCES)
	$(call say,MAN)
	$(Q)sh docs/man/build.sh $(B) $(MAN_SOURCES)
	$(Q)touch $@

# What is built by make, and so is there for make install and make deb.
PROGRAMS += $(MAN_STAMP)

TEST_SUITES += man
suite_man = sh tests/man.sh $(B)/man $(B)/completion
suite_man_needs = $(MAN_STAMP)

CHECK_SUITES += man-entries
suite_man-entries = sh tests/man_entries.sh $(B)
suite_man-entries_needs = $(B)/bin/bee $(B)/bin/skep
