# SPDX-License-Identifier: MIT
# libskeprpc, what masters link, and the tests of manifests, arguments and it.

GRID_LIB_SRC := $(sort $(wildcard grid/lib/*.c)) grid/core/module.c \
	grid/core/marshal.c
grid_lib_objects = $(patsubst %.c,$(B)/obj/$(1)/%.o,$(GRID_LIB_SRC))

OBJECT_GCC_PIC = $(OBJECT_GCC) -fPIC -pthread
$(eval $(call object_rules,gcc-pic,OBJECT_GCC_PIC,CC))

# One object in which only what is public has global names.
$(B)/obj/gcc-pic/grid/lib/skeprpc.o: $(call grid_lib_objects,gcc-pic)
	$(call say,LD)
	$(Q)$(CC) -nostdlib -r -o $@ $^
	$(Q)objcopy --wildcard --keep-global-symbol='OmniRpc*' \
		--keep-global-symbol=skep_call_info \
		--keep-global-symbol=skep_mpi_refuse \
		--keep-global-symbol='omrpc_*' \
		--keep-global-symbol='omnirpc_*' \
		--keep-global-symbol=skep_function_inside \
		--keep-global-symbol='skep_fortran_*' $@
$(B)/lib/libskeprpc.a: $(B)/obj/gcc-pic/grid/lib/skeprpc.o
	$(call say,AR)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $<
$(B)/lib/libskeprpc.so: $(call grid_lib_objects,gcc-pic) grid/lib/exports.map \
		grid/lib/room.mk
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread -Wl,-z,defs -Wl,-soname,libskeprpc.so.0 \
		-Wl,--version-script=grid/lib/exports.map -o $@ \
		$(filter %.o,$^)
	$(Q)ln -sf libskeprpc.so $@.0
PROGRAMS += $(B)/lib/libskeprpc.a $(B)/lib/libskeprpc.so

# GridRPC, which shares no name with libskeprpc: a master may link both.
GRIDRPC_SRC := $(sort $(wildcard grid/gridrpc/*.c))
gridrpc_objects = $(patsubst %.c,$(B)/obj/$(1)/%.o,$(GRIDRPC_SRC)) \
	$(call grid_lib_objects,$(1))
$(B)/obj/gcc-pic/grid/gridrpc/gridrpc-linked.o: $(call gridrpc_objects,gcc-pic)
	$(call say,LD)
	$(Q)$(CC) -nostdlib -r -o $@ $^
	$(Q)objcopy --wildcard --keep-global-symbol='grpc_*' \
		--keep-global-symbol=skep_function_inside \
		--keep-global-symbol='skep_grpc_*' $@
$(B)/lib/libgridrpc.a: $(B)/obj/gcc-pic/grid/gridrpc/gridrpc-linked.o
	$(call say,AR)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $<
PROGRAMS += $(B)/lib/libgridrpc.a

grid_t := $(B)/test/grid

$(grid_t)/module_test: $(addprefix $(B)/obj/san/,grid/test/module_test.o \
	grid/core/module.o grid/core/marshal.o)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -o $@ $^
CHECK_SUITES += grid-module
suite_grid-module = $(grid_t)/module_test
suite_grid-module_needs = $(grid_t)/module_test

FUZZERS += grid-module
fuzz_grid-module_dir := $(B)/fuzz/grid-module.corpus
fuzz_grid-module = $(B)/fuzz/grid-module $(fuzz_grid-module_dir)
fuzz_grid-module_needs = $(B)/fuzz/grid-module $(fuzz_grid-module_dir)/seed
$(B)/fuzz/grid-module: grid/test/module_fuzz.c grid/core/module.c \
		grid/core/marshal.c grid/core/module.h grid/core/marshal.h
	$(call say,FUZZ)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) \
		-fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $@ $(filter %.c,$^)
$(fuzz_grid-module_dir)/seed: $(grid_t)/module_test
	$(Q)mkdir -p $(@D)
	$(Q)$< $@

$(grid_t)/lib_test: $(addprefix $(B)/obj/san/,grid/test/lib_test.o \
	grid/test/hub.o) $(call grid_lib_objects,san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -pthread -Wl,--wrap=grid_stream_send -o $@ $^
CHECK_SUITES += grid-lib
suite_grid-lib = $(grid_t)/lib_test
suite_grid-lib_needs = $(grid_t)/lib_test

$(grid_t)/back_test: $(B)/obj/san/grid/test/back_test.o \
	$(call grid_lib_objects,san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -pthread -o $@ $^
CHECK_SUITES += grid-back
suite_grid-back = $(grid_t)/back_test
suite_grid-back_needs = $(grid_t)/back_test

$(grid_t)/gridrpc_test: $(addprefix $(B)/obj/san/,grid/test/gridrpc_test.o \
	grid/test/hub.o) $(call gridrpc_objects,san)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -pthread -o $@ $^
CHECK_SUITES += gridrpc
suite_gridrpc = $(grid_t)/gridrpc_test
suite_gridrpc_needs = $(grid_t)/gridrpc_test

# A whole grid: hub, agent, worker and master, as `skep run` puts them together.
$(grid_t)/master: grid/test/master.c $(B)/lib/libskeprpc.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(OBJECT_GCC) $(DEPS) -Igrid/include -pthread -o $@ \
		$(filter %.c %.a,$^)
$(grid_t)/modules/sample.rex: $(grid_t)/worker-glibc
	$(Q)mkdir -p $(@D)
	$(Q)cp $< $@
CHECK_SUITES += grid-run
suite_grid-run = $(B)/bin/skep run --modules $(grid_t)/modules -- \
	$(grid_t)/master
TEST_SUITES += grid-death
suite_grid-death = $(suite_grid-run) death
BENCHES += grid-call
bench_grid-call = $(suite_grid-run) measure
BENCHES += grid-masters
bench_grid-masters = sh grid/test/masters.sh $(B)/bin/skep \
	$(grid_t)/master $(grid_t)/modules
bench_grid-masters_needs = $(grid_run_needs)
grid_run_needs := $(grid_t)/master $(grid_t)/modules/sample.rex \
	$(B)/bin/skep
suite_grid-run_needs = $(grid_run_needs)
suite_grid-death_needs = $(grid_run_needs)
bench_grid-call_needs = $(grid_run_needs)

# lib's tests go through core as well.
MUTANTS += grid/gridrpc
mutants_grid/gridrpc = gridrpc compat
MUTANTS += grid/core
mutants_grid/core = grid-session grid-module grid-lib grid-worker grid-run
