# SPDX-License-Identifier: MIT
# skep and skep.exe, and the kit with which a Windows owner tries both. Go
# decides what is stale, so both are always asked for.

SKEP_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
SKEP_GO = $(GO) build -ldflags '-s -w $(if $(SKEP_COMMIT),-X main.commit=$(SKEP_COMMIT))'

$(B)/bin/skep: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)$(SKEP_GO) -o $@ ./cmd/skep

# The names that users of OmniRPC type.
omrpc_tools := $(addprefix $(B)/bin/,omrpc-cc omrpc-cc-mpi omrpc-cc-xmp \
	omrpc-fc omrpc-gen omrpc-register omrpc-register-yml tlogview \
	OmrpcMonitor)
PROGRAMS += $(omrpc_tools)
$(omrpc_tools): | $(B)/bin/skep
	$(Q)ln -sf skep $@

# Go links a .syso that lies in the folder of the main package. It is made
# here, so that folder is a copy: its name keeps it out of ./... of the tree.
skep_win := $(B)/gen/_skep
skep_syso := $(skep_win)/resources_windows_amd64.syso

$(skep_syso): cmd/skep/skep.rc cmd/skep/skep.manifest
	$(call say,RC)
	$(Q)mkdir -p $(@D)
	$(Q)$(WINDRES) -Icmd/skep -O coff $< $@

# Two of Go's files, changed so that skep.exe starts under Wine 8 as well.
skep_overlay := $(B)/gen/overlay/overlay.json

$(skep_overlay): FORCE
	$(Q)$(GO) run ./cmd/skep/overlay $(@D)

$(B)/bin/skep.exe: FORCE $(skep_syso) $(skep_overlay)
	$(Q)mkdir -p $(@D)
	$(Q)rm -f $(skep_win)/*.go
	$(Q)cp cmd/skep/*.go $(skep_win)
	$(Q)rm -f $(skep_win)/*_test.go
	$(Q)GOOS=windows $(SKEP_GO) -overlay $(skep_overlay) -o $@ ./$(skep_win)

# Test programs for Windows begin with this: without the overlay, or at the same time as
# skep.exe, Go would compile its library and that of the hub once more.
windows_test = GOOS=windows $(GO) test -c -overlay $(skep_overlay)

PROGRAMS += $(B)/bin/skep $(B)/bin/skep.exe

CHECK_SUITES += cli
suite_cli = $(GO) test -count=1 -json ./internal/cli ./internal/manual ./cmd/skep
suite_cli_kind = go

CHECK_SUITES += service
suite_service = $(GO) test -count=1 -json ./internal/service
suite_service_kind = go

# The kit holds programs of the conformance suites and what they print here.
windows_kit := $(B)/skep-windows-kit.zip
kit_dir := cmd/skep/kit
kit_programs := $(addprefix $(B)/conformance/,$(sort $(shell \
	awk '!/^#/ { print $$2 }' $(kit_dir)/kit.tbl)))

kit_bench := $(B)/bench/linux/calls $(B)/bench/linux/noise $(B)/test/eigen/point

$(windows_kit): $(B)/bin/bee.exe $(B)/bin/skep.exe $(kit_programs) $(kit_bench) \
		$(wildcard $(kit_dir)/*)
	$(call say,ZIP)
	$(Q)sh $(kit_dir)/make.sh $(B) $@

TEST_SUITES += wine-kit
suite_wine-kit = $(STEADY) sh tests/wine/kit.sh $(B) $(windows_kit)
suite_wine-kit_needs = $(windows_kit) $(call wine_prefix,kit)
suite_wine-kit_deadline = 900

# Mutants run without a network, and the page of Python installs packages.
MUTANTS_SUITES += hello-offline
suite_hello-offline = $(suite_hello) -skip '^TestPythonPage$$'
suite_hello-offline_kind = go
suite_hello-offline_needs = $(suite_hello_needs)
# The part of the suite chaos that tests detached runs.
MUTANTS_SUITES += detached
suite_detached = $(suite_chaos) -run '^TestDetached'
suite_detached_kind = go
suite_detached_needs = $(suite_chaos_needs)
MUTANTS += cmd/skep
mutants_cmd/skep = cli hello-offline grid-run journey-linux compat detached

# The examples for Slurm and hosts that submit jobs, with the distribution's Slurm, as root;
# and jobs with a kernel update, in a virtual machine.
FULL_SUITES += slurm
suite_slurm = SKEP_TEST_SLURM=1 $(GO) test -count=1 -json -run '^TestSlurm(Itself|Hosts|MPI|Update)$$' ./cmd/skep ./tests/vm
suite_slurm_kind = go
suite_slurm_deadline = 1260
suite_slurm_needs = $(B)/bin/skep $(o2g_run_needs) $(call update_needs,$(update_kernels))

# Hosts that submit jobs to the distribution's SGE, as root. Its packages are unpacked and not
# installed, because they would start daemons and bring a mail server.
sge_packages := $(B)/sge/unpacked

$(sge_packages):
	$(call say,APT)
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)cd $(@D) && apt-get -qq download gridengine-master gridengine-exec \
		gridengine-client gridengine-common libjemalloc2
	$(Q)cd $(@D) && for p in *.deb; do dpkg-deb -x $$p . || exit; rm $$p; done
	$(Q)touch $@

FULL_SUITES += sge
suite_sge = SKEP_TEST_SGE=$(abspath $(dir $(sge_packages))) $(GO) test -count=1 -json -run '^TestSGE$$' ./cmd/skep
suite_sge_kind = go
suite_sge_deadline = 600
suite_sge_needs = $(B)/bin/skep $(sge_packages)
