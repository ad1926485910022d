# SPDX-License-Identifier: MIT
# Jobs of skep mpirun, looked at from outside.

O2G_RUN := $(B)/tool/o2g
$(O2G_RUN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./tests/o2g/run

$(B)/test/o2g/app-wheel: MPICC = $(MPI_DIR)/mpich/bin/mpicc
$(B)/test/o2g/app-wheel: $(MPI_READY)
$(B)/test/o2g/app-openmpi: MPICC = mpicc.openmpi
$(B)/test/o2g/app-%: tests/o2g/app.c
	$(call say,MPICC)
	$(Q)mkdir -p $(@D)
	$(Q)$(MPICC) $(mpi_flags) -o $@ $<

o2g_run_needs = $(O2G_RUN) $(mpi_needs) \
	$(addprefix $(B)/test/o2g/app-,wheel openmpi)

TEST_SUITES += mpirun-journey
suite_mpirun-journey = $(O2G_RUN) journey
suite_mpirun-journey_needs = $(o2g_run_needs)
suite_mpirun-journey_deadline = 600

TEST_SUITES += mpirun-hosts mpirun-step
suite_mpirun-hosts = $(O2G_RUN) hosts
suite_mpirun-hosts_needs = $(o2g_run_needs)
suite_mpirun-hosts_deadline = 600
suite_mpirun-step = $(O2G_RUN) step
suite_mpirun-step_needs = $(o2g_run_needs)

TEST_SUITES += mpirun-hostile mpirun-kills
suite_mpirun-hostile = $(O2G_RUN) hostile
suite_mpirun-hostile_needs = $(o2g_run_needs)
suite_mpirun-kills = $(O2G_RUN) kills 5
suite_mpirun-kills_needs = $(o2g_run_needs)

$(B)/test/o2g/flood: $(B)/obj/gcc/tests/o2g/flood.o $(B)/lib/libo2g.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^
TEST_SUITES += o2g-flood o2g-flood-slab o2g-flood-encrypted
suite_o2g-flood-encrypted = env SKEP_O2G_ENCRYPT=yes $(B)/test/o2g/flood
suite_o2g-flood-encrypted_needs = $(B)/test/o2g/flood
suite_o2g-flood = $(B)/test/o2g/flood
suite_o2g-flood_needs = $(B)/test/o2g/flood
suite_o2g-flood-slab = env SKEP_O2G_ENGINE=user-slab $(B)/test/o2g/flood
suite_o2g-flood-slab_needs = $(B)/test/o2g/flood

$(B)/test/o2g/load: $(B)/obj/gcc/tests/o2g/load.o $(B)/lib/libo2g.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -Wl,--wrap=ppoll,--wrap=write -o $@ $^
CHECK_SUITES += o2g-load
suite_o2g-load = $(B)/test/o2g/load
suite_o2g-load_needs = $(B)/test/o2g/load

SOAKS += o2g-fabtests
soak_o2g-fabtests = $(if $(FABTESTS),tests/o2g/fabtests.sh $(B) '$(FABTESTS)',\
	echo "make soak ROOM=o2g-fabtests: name libfabric's fabtests, which were \
	built there, with FABTESTS=PATH" >&2; exit 2)
soak_o2g-fabtests_needs = $(B)/lib/libo2g-fi.so

# The rest of the library comes from its archive, page.o does not.
$(B)/test/o2g/page: $(B)/obj/san/tests/o2g/page.o $(B)/lib/libo2g.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_SAN) -pthread -o $@ $^
CHECK_SUITES += o2g-page
suite_o2g-page = $(B)/test/o2g/page
suite_o2g-page_needs = $(B)/test/o2g/page

# The memory that is available is what this program pretends.
$(B)/test/o2g/spare: $(B)/obj/gcc/tests/o2g/spare.o $(B)/lib/libo2g.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -Wl,--wrap=o2g_memory_available -o $@ $^
CHECK_SUITES += o2g-spare
suite_o2g-spare = $(B)/test/o2g/spare
suite_o2g-spare_needs = $(B)/test/o2g/spare
