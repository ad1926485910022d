# SPDX-License-Identifier: MIT
# MPI programs as they are over O2G, on the MPIs from PyPI and from Debian, and
# mpi4py's tests over O2G and TCP. Only these suites need the network, once.

MPI_DIR := $(B)/mpi
MPI_READY := $(MPI_DIR)/ready
SLOW += $(MPI_READY)
$(MPI_READY): tests/mpi/requirements.txt tests/mpi/venv.sh
	$(call say,MPI)
	$(Q)sh tests/mpi/venv.sh $(MPI_DIR)

MPI_RUN := $(B)/tool/mpi
$(MPI_RUN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/mpi/run

# Built by the wheel's compiler driver and by those of Debian.
# Debian's MPICH declares MPI_STATUSES_IGNORE in a way that gcc frowns at.
mpi_flags := -std=gnu11 -O2 -g -Wall -Wextra -Wno-stringop-overflow -Werror
$(B)/test/mpi/program-wheel: MPICC = $(MPI_DIR)/mpich/bin/mpicc
$(B)/test/mpi/program-wheel: $(MPI_READY)
$(B)/test/mpi/program-mpich: MPICC = mpicc.mpich
$(B)/test/mpi/program-openmpi: MPICC = mpicc.openmpi
$(B)/test/mpi/program-%: tests/mpi/program.c
	$(call say,MPICC)
	$(Q)mkdir -p $(@D)
	$(Q)$(MPICC) $(mpi_flags) -o $@ $<

mpi_needs = $(MPI_RUN) $(B)/bin/skep $(B)/lib/libo2g-fi.so $(MPI_READY)

TEST_SUITES += mpi mpi4py
suite_mpi = $(MPI_RUN) programs
suite_mpi_needs = $(mpi_needs) \
	$(addprefix $(B)/test/mpi/program-,wheel mpich openmpi)
suite_mpi_deadline = 600

# And with bodies in a slab, as the kernel engine leaves them.
TEST_SUITES += mpi-slab
suite_mpi-slab = env SKEP_O2G_ENGINE=user-slab $(suite_mpi)
suite_mpi-slab_needs = $(suite_mpi_needs)
suite_mpi-slab_deadline = 600

# What breaks first when matching, probing or flow control is wrong.
suite_mpi4py = $(MPI_RUN) -deadline 90s -ranks 2,3 mpi4py \
	$(addprefix test_,comm_topo p2p_buf@2 p2p_buf_matched@2 p2p_obj@2 cco_obj \
	cco_nb_buf@2 cco_pr_vec $(addprefix rma.TestRMAWorld.test,PutGet@2 \
	FetchAndOp@2 StartCompletePostWait@2) win@2 io.TestIOBasicWorld@2 \
	session@2 threads@2 request@2)
suite_mpi4py_needs = $(mpi_needs)
suite_mpi4py_deadline = 1200

# All of it, on all MPIs; the table belongs into docs/results/o2g.md.
SOAKS += o2g
soak_o2g = $(O2G_RUN) kills 200 && \
	$(MPI_RUN) -ranks 1,2,3 -mpi mpich,openmpi,debian -deadline 3m \
	-least 1100 -prove -results $(B)/test/mpi4py.md mpi4py
soak_o2g_needs = $(o2g_run_needs)
