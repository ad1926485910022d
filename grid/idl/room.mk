# SPDX-License-Identifier: MIT
# The compiler of interface files; its stubs are compiled with the C side's
# headers and read by it.

CHECK_SUITES += idl
suite_idl = $(GO) test -count=1 -json ./grid/idl
suite_idl_kind = go

MUTANTS += grid/idl
mutants_grid/idl = idl
