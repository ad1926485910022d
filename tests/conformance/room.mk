# SPDX-License-Identifier: MIT
# Ordinary Linux programs, built once and run natively, under bee on Linux and
# under bee on Windows; the native run is the oracle. A program takes part by
# its file name; what else it needs (arguments, input) is in run/cases.go.

CONF := $(B)/conformance
conf_dir := tests/conformance
conf_all := $(filter-out openmp,$(basename $(notdir $(wildcard $(conf_dir)/c/*.c))))
conf_go := $(notdir $(wildcard $(conf_dir)/go/*))

CONF_CFLAGS := -std=gnu11 -O2 -g -pthread $(INCLUDE) $(filter-out \
	-Wstrict-prototypes,$(WARN))
CONF_DEPS = $(DEPS) -MF $(B)/obj/$(@:$(B)/%=%).d -MT $@

conf_glibc := $(addprefix $(CONF)/glibc/,$(conf_all) tls_pic openmp exceptions)
conf_pie := $(addprefix $(CONF)/pie/,$(conf_all) tls_pic openmp exceptions)
conf_musl := $(addprefix $(CONF)/musl/,$(conf_all) tls_pic)
# Dynamic programs: the same, and those with a library of their own.
conf_parts := $(basename $(notdir $(wildcard $(conf_dir)/dynamic/*.c)))
conf_dynamic := $(addprefix $(CONF)/dynamic/,$(conf_all) tls_pic openmp \
	exceptions $(conf_parts) link_throw)
conf_musldyn := $(addprefix $(CONF)/musl-dynamic/,$(conf_all) tls_pic \
	$(filter-out link_ifunc,$(conf_parts)))
conf_gobin := $(addprefix $(CONF)/go/,$(conf_go))
conf_fortran := $(if $(shell command -v gfortran 2>/dev/null),$(addprefix \
	$(CONF)/,glibc/fortran pie/fortran))
CONF_PROGRAMS := $(conf_glibc) $(conf_pie) $(conf_musl) $(conf_dynamic) \
	$(conf_musldyn) $(conf_gobin) $(conf_fortran)

# $(1) folder, $(2) C compiler with its kind of linking, $(3) C++ compiler.
define conf_rules
$(CONF)/$(1)/%: $(conf_dir)/c/%.c
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D) $$(dir $(B)/obj/$$(@:$(B)/%=%))
	$(Q)$(2) $$(CONF_CFLAGS) $$(CONF_DEPS) -o $$@ $$< -lm
$(CONF)/$(1)/tls_pic: $(conf_dir)/c/tls.c
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D) $$(dir $(B)/obj/$$(@:$(B)/%=%))
	$(Q)$(2) $$(CONF_CFLAGS) -fPIC -ftls-model=global-dynamic \
		$$(CONF_DEPS) -o $$@ $$< -lm
$(CONF)/$(1)/openmp: $(conf_dir)/c/openmp.c
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D) $$(dir $(B)/obj/$$(@:$(B)/%=%))
	$(Q)$(2) $$(CONF_CFLAGS) -fopenmp $$(CONF_DEPS) -o $$@ $$< 2>&1 | \
		grep -v -e dlopen -e gomp_target_init >&2; test -x $$@
$(CONF)/$(1)/exceptions: $(conf_dir)/c/exceptions.cc
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(3) -std=gnu++17 -O2 -g -pthread -Wall -Wextra -Werror -o $$@ $$<
$(CONF)/$(1)/fortran: $(conf_dir)/c/fortran.f90
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)gfortran $(4) -O2 -g -Wall -Werror -o $$@ $$<
endef
$(eval $(call conf_rules,glibc,$(CC) -static,g++ -static,-static))
$(eval $(call conf_rules,pie,$(CC) -static-pie,g++ -static-pie,-static-pie))
$(eval $(call conf_rules,musl,$(MUSL) -static,,))
$(eval $(call conf_rules,dynamic,$(CC),g++,))
$(eval $(call conf_rules,musl-dynamic,$(MUSL),,))

# A library next to the programs, and the program that finds it there. What is
# linked is found by name, what is opened at run time is not named.
# $(1) folder, $(2) compiler of C, $(3) of C++
define conf_part_rules
$(CONF)/parts/$(1)/lib%.so: $(conf_dir)/dynamic/%.c
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) $(CONF_CFLAGS) -DPART -fPIC -shared -Wl,-z,relro,-z,now \
		-Wl,-soname,$$(@F) -o $$@ $$<
$(CONF)/parts/$(1)/lib%.so: $(conf_dir)/dynamic/%.cc
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(3) -std=gnu++17 -O2 -DPART -fPIC -shared \
		-Wl,-soname,$$(@F) -o $$@ $$<
$(CONF)/parts/$(1)/libopen_tls-gnu2.so: $(conf_dir)/dynamic/open_tls.c
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) $(CONF_CFLAGS) -DPART -fPIC -shared -mtls-dialect=gnu2 \
		-o $$@ $$<
$(CONF)/$(1)/open_%: $(conf_dir)/dynamic/open_%.c $(CONF)/parts/$(1)/libopen_%.so
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) $(CONF_CFLAGS) -rdynamic -o $$@ $$< -ldl \
		-Wl,-rpath,'$$$$ORIGIN/../parts/$(1)'
$(CONF)/$(1)/open_tls: $(CONF)/parts/$(1)/libopen_tls-gnu2.so
$(CONF)/$(1)/link_%: $(conf_dir)/dynamic/link_%.c $(CONF)/parts/$(1)/liblink_%.so
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(2) $(CONF_CFLAGS) -rdynamic -Wl,-z,lazy -o $$@ $$^ \
		-Wl,-rpath,'$$$$ORIGIN/../parts/$(1)'
$(CONF)/$(1)/link_%: $(conf_dir)/dynamic/link_%.cc $(CONF)/parts/$(1)/liblink_%.so
	$$(call say,CONF)
	$(Q)mkdir -p $$(@D)
	$(Q)$(3) -std=gnu++17 -O2 -pthread -o $$@ $$^ \
		-Wl,-rpath,'$$$$ORIGIN/../parts/$(1)'
endef
.PRECIOUS: $(CONF)/parts/dynamic/%.so $(CONF)/parts/musl-dynamic/%.so
$(eval $(call conf_part_rules,dynamic,$(CC),g++))
$(eval $(call conf_part_rules,musl-dynamic,$(MUSL),))

# Go's linker puts the build id into the text: this one reads as gs: moves, as
# one in forty does by chance.
conf_build_id := 0x909090909090658b00658b00658b00658b009090

$(CONF)/go/%: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -ldflags "-B $(conf_build_id)" -o $@ ./$(conf_dir)/go/$*

CONF_RUN := $(B)/tool/conformance
$(CONF_RUN): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(GO) build -o $@ ./$(conf_dir)/run

CHECK_SUITES += conformance-cheats
TEST_SUITES += conformance-native conformance-linux conformance-wine

# The runner itself: fakes that start the program natively must be caught.
suite_conformance-cheats := $(GO) test -count=1 -json ./$(conf_dir)/run
suite_conformance-cheats_kind := go
suite_conformance-cheats_needs := $(CONF)/glibc/hello $(CONF)/glibc/proof

# Each way to link a program runs under bee on Linux. The oracle, and bee.exe, have one
# of each pair of like ways in make test, and all in make test-full.
FULL_SUITES += conformance-native-all conformance-wine-all
suite_conformance-native := $(CONF_RUN) -on native -only '^(glibc|musl|go|debian) '
suite_conformance-native-all := $(CONF_RUN) -on native
suite_conformance-native_needs := $(CONF_RUN) $(CONF_PROGRAMS)
suite_conformance-native-all_needs := $(suite_conformance-native_needs)

# Most cases wait for something, so two run at a time.
suite_conformance-linux := $(CONF_RUN) -on linux -parallel 2
suite_conformance-linux_needs := $(CONF_RUN) $(CONF_PROGRAMS) \
	$(B)/bin/bee $(B)/bin/bee-guard
suite_conformance-linux_deadline := 300

suite_conformance-wine-all := $(STEADY) $(CONF_RUN) -on wine -parallel 2
# A dynamic program makes the calls of the static one of the same library: under
# bee.exe make test has those whose linking matters, and Debian's bash.
conf_linked := tls|exceptions|execute|spawn|fork|futex_shared|trampolines|threads64
suite_conformance-wine := $(suite_conformance-wine-all) -only \
	'^(glibc|musl|go|debian) |^(musl-)?dynamic (link|open)_|^dynamic ($(conf_linked))'
suite_conformance-wine_needs := $(CONF_RUN) $(CONF_PROGRAMS) \
	$(B)/bin/bee.exe $(B)/bin/bee-guard
suite_conformance-wine_deadline := 900
suite_conformance-wine-all_needs := $(suite_conformance-wine_needs)
suite_conformance-wine-all_deadline := 1800
