# SPDX-License-Identifier: MIT
# The launcher of MPI programs: skep mpirun.

CHECK_SUITES += mpirun
suite_mpirun = $(GO) test -count=1 -json ./internal/mpi
suite_mpirun_kind = go
