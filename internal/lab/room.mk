# SPDX-License-Identifier: MIT
# The lab: kernels, their modules, and machines that run them.

KMODS += trivial
kmod_trivial = tests/vm/kmod/trivial

include internal/lab/count/room.mk
