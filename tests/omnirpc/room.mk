# SPDX-License-Identifier: MIT
# The programs of the public OmniRPC 2 tree, unchanged, against our headers and
# libraries: make soak ROOM=omnirpc OMNIRPC=PATH, with
# NINFG=PATH for the interface files of Ninf-G too.
SOAKS += omnirpc
soak_omnirpc = $(if $(OMNIRPC),$(GO) run ./tests/omnirpc $(B)/bin/skep \
	'$(OMNIRPC)' $(if $(NINFG),'$(NINFG)'),echo "make soak ROOM=omnirpc: name a checkout of OmniRPC 2 \
	with OMNIRPC=PATH" >&2; exit 2)
soak_omnirpc_needs = $(B)/bin/skep $(B)/lib/libskepworker.a $(B)/lib/libskeprpc.a
