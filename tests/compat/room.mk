# SPDX-License-Identifier: MIT
# Programs in the style of OmniRPC, one per feature, through a whole grid.
CHECK_SUITES += compat
suite_compat = BUILD=$(abspath $(B)) $(GO) test -count=1 -json ./tests/compat
suite_compat_kind = go
suite_compat_needs = $(B)/bin/skep $(B)/lib/libskepworker.a \
	$(B)/lib/libskeprpc.a $(B)/lib/libgridrpc.a
