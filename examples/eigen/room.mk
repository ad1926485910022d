# SPDX-License-Identifier: MIT
# The demo's solver: eigenvalues inside a circle, one remote call for each point.
# The worker is linked statically with MUMPS, SCOTCH, BLAS and LAPACK of Debian.
# The master is linked with the shared libraries of this machine.

EIGEN_INCLUDE := -Igrid/include -I/usr/include/mumps_seq
OBJECT_EIGEN = $(OBJECT_GCC) $(EIGEN_INCLUDE)
OBJECT_EIGEN_SAN = $(OBJECT_SAN) $(EIGEN_INCLUDE)
$(eval $(call object_rules,eigen,OBJECT_EIGEN,CC))
$(eval $(call object_rules,eigen-san,OBJECT_EIGEN_SAN,CC))

# $(1): toolchain, $(2): names of source files without .c.
eigen_objects = $(patsubst %,$(B)/obj/$(1)/examples/eigen/%.o,$(2))
eigen_t := $(B)/test/eigen
EIGEN_SOLVER := worker sparse
EIGEN_MASTER := master report options verdict circle local market reference \
	contour factor box $(EIGEN_SOLVER)
EIGEN_STATIC := -lzmumps_seq -lmumps_common_seq -lpord_seq -lmpiseq_seq \
	-lesmumps -lscotch -lscotcherr -llapack -lblas -lgfortran -lquadmath \
	-lz -lbz2 -llzma -lm -lpthread
EIGEN_SHARED := -ldmumps_seq -lzmumps_seq -lmpiseq_seq -larpack -llapack \
	-lblas -lm

PROGRAMS += $(B)/bin/eigen
$(B)/bin/eigen: $(call eigen_objects,eigen,main remote $(EIGEN_MASTER)) \
		$(B)/lib/libskeprpc.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -pthread -o $@ $^ $(EIGEN_SHARED)

# The worker, with a stub of the IDL compiler. `skep run` finds it beside the
# master.
PROGRAMS += $(B)/bin/eigen.rex
$(B)/gen/eigen/eigen_stub.c: examples/eigen/eigen.idl $(B)/bin/skep
	$(call say,IDL)
	$(Q)mkdir -p $(@D)
	$(Q)$(B)/bin/skep gen -o $(@D) $<
$(B)/obj/eigen/eigen_stub.o: $(B)/gen/eigen/eigen_stub.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -g $(EIGEN_INCLUDE) $(DEPS) -c -o $@ $<
$(B)/bin/eigen.rex: $(B)/obj/eigen/eigen_stub.o $(call \
		eigen_objects,eigen,$(EIGEN_SOLVER)) $(B)/lib/libskepworker.a
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -pthread -o $@ $^ $(EIGEN_STATIC)

# One point of the contour as a program, which runs natively and under bee.
$(eigen_t)/point: $(call eigen_objects,eigen,test/point box $(EIGEN_SOLVER))
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static -o $@ $^ $(EIGEN_STATIC)

CHECK_SUITES += eigen-market eigen-solver
suite_eigen-market = $(eigen_t)/market_test
suite_eigen-market_needs = $(eigen_t)/market_test
$(eigen_t)/market_test: $(call eigen_objects,eigen-san,test/market_test market \
		sparse)
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -o $@ $^ -lm

# No detection of leaks: Fortran libraries keep their memory to the end.
suite_eigen-solver = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/solver_test
suite_eigen-solver_needs = $(eigen_t)/solver_test
$(eigen_t)/solver_test: $(call eigen_objects,eigen-san,test/solver_test \
		$(EIGEN_MASTER))
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -Wl,--wrap=eigen_contour_check -o $@ $^ \
		$(EIGEN_SHARED)

# Tests of single steps and of printed lines.
CHECK_SUITES += eigen-numbers eigen-options eigen-report eigen-circle eigen-box
suite_eigen-box = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/box_test
suite_eigen-box_needs = $(eigen_t)/box_test
suite_eigen-numbers = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/numbers_test
suite_eigen-numbers_needs = $(eigen_t)/numbers_test
suite_eigen-options = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/options_test
suite_eigen-options_needs = $(eigen_t)/options_test
suite_eigen-circle = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/circle_test
suite_eigen-circle_needs = $(eigen_t)/circle_test
suite_eigen-report = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/report_test
suite_eigen-report_needs = $(eigen_t)/report_test
$(eigen_t)/%_test: $(B)/obj/eigen-san/examples/eigen/test/%_test.o \
		$(call eigen_objects,eigen-san,$(EIGEN_MASTER))
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) -o $@ $^ $(EIGEN_SHARED)

# Memory that ends.
CHECK_SUITES += eigen-memory
suite_eigen-memory = ASAN_OPTIONS=detect_leaks=0 $(eigen_t)/memory_test
suite_eigen-memory_needs = $(eigen_t)/memory_test
$(eigen_t)/memory_test: $(call eigen_objects,eigen-san,test/memory_test \
		$(EIGEN_MASTER))
	$(call say,LINK)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN) $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
		free) -o $@ $^ $(EIGEN_SHARED)

CHECK_SUITES += eigen-bee
suite_eigen-bee = sh examples/eigen/test/bee.sh $(B) linux
suite_eigen-bee_needs = $(eigen_t)/point $(B)/bin/bee $(B)/bin/bee-guard
TEST_SUITES += eigen-wine
suite_eigen-wine = $(STEADY) sh examples/eigen/test/bee.sh $(B) wine
suite_eigen-wine_needs = $(eigen_t)/point $(B)/bin/bee.exe $(B)/bin/bee-guard

BENCHES += eigen
bench_eigen = sh examples/eigen/test/bench.sh $(B)
bench_eigen_needs = $(eigen_t)/point $(B)/bin/bee $(B)/bin/bee.exe

MUTANTS += examples/eigen
mutants_examples/eigen = eigen-market eigen-numbers eigen-options \
	eigen-memory eigen-box eigen-report eigen-circle eigen-solver eigen-bee
