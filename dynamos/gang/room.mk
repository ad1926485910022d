# SPDX-License-Identifier: MIT
# Gangs: control groups that take turns.

CHECK_SUITES += gang
suite_gang = $(GO) test -count=1 -json ./dynamos/gang
suite_gang_kind = go
