# SPDX-License-Identifier: MIT
# What the control plane stands on: contracts, sessions, identity, the engine
# and blobs. Hub, scheduler and agent have rooms of their own.

CHECK_SUITES += control
suite_control = $(GO) test -count=1 -json $(addprefix ./internal/, \
	uapi session ident engine blob proto whole)
suite_control_kind = go
