# SPDX-License-Identifier: MIT
# The builder of kernel updates: source, assembly, images, modules, packages.

CHECK_SUITES += update
suite_update = $(GO) test -count=1 -json ./internal/update/...
suite_update_kind = go
