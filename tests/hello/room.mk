# SPDX-License-Identifier: MIT
# A C function as a remote call, as README shows it, with an interface compiler
# and libraries that are used as a user has them.

CHECK_SUITES += hello
suite_hello = BUILD=$(abspath $(B)) $(GO) test -count=1 -json ./tests/hello
suite_hello_kind = go
suite_hello_needs = $(B)/bin/skep $(B)/lib/libskepworker.a \
	$(B)/lib/libskeprpc.a $(B)/lib/libgridrpc.a wheel
