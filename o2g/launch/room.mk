# SPDX-License-Identifier: MIT
# The launcher of MPI programs: skep mpirun. And what judges mpi4py's tests.

CHECK_SUITES += mpirun
suite_mpirun = $(GO) test -count=1 -json ./o2g/launch ./tests/mpi/run
suite_mpirun_kind = go

MUTANTS += o2g/launch
mutants_o2g/launch = mpirun
