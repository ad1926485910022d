# SPDX-License-Identifier: MIT
# SHIMOS. The core is pure and freestanding, the module is for Linux.

KMODS += shimos
kmod_shimos = shimos/kmod
kmod_shimos_with = shimos/core include/skep
