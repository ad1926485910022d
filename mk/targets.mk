# SPDX-License-Identifier: MIT
# The targets that people type. Text after ## is what `make help` prints.

# Set under `make -n`, which expands recipes as well but must write nothing.
dry = $(findstring n,$(filter-out --%,$(firstword $(MAKEFLAGS))))

# The folder that this user may not write to: the tree belongs to another user, or
# root ran make. Without this check the build would fail at some file.
unwritable = $(shell d=$$(test -e $(B) && echo $(B) || echo .); test -w "$$d" || echo "$$d")
ifneq ($(if $(dry),,$(filter-out help,$(or $(MAKECMDGOALS),$(.DEFAULT_GOAL)))),)
$(if $(unwritable),$(error you may not write to '$(unwritable)': use a tree of your own, or sudo \
	chown -R $$USER build if root ran make here))
endif

.PHONY: all setup demo record results claims test test-full test-full-build test-full-run check style wine vm bench fuzz soak windows-kit man \
	format help clean test-build test-run demo-build demo-run vm-build vm-run FORCE

all: $(PROGRAMS) ## build the programs into build/bin

# The set of packages to install: demo, test or full. See mk/setup.sh.
NEED := test
setup: ## install missing packages with the system's package manager (NEED=demo for few, YES=1: do not ask)
	$(Q)$(if $(YES),YES='$(YES)' )sh mk/setup.sh $(B) $(NEED)

# One job for each processor, but at most one for each available GiB of memory,
# unless -j was given.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell awk -v \
	n="$$(nproc)" '/^MemAvailable:/ { m = int($$2 / 1048576); print m < 1 ? \
	1 : m < n ? m : n }' /proc/meminfo) --output-sync=target)

# Setup comes first and alone, because the rules below use what it installs. Then
# a parallel make builds everything. Programs and suites run last, in a make with
# one job, so that they have the terminal and its signals.
ifneq ($(origin BUILT),command line)
BUILT :=
endif
# The targets $(1), the slow ones first; none if the make before this one built
# them.
needed = $(if $(BUILT),,$(filter $(SLOW),$(1)) $(1))

demo: ## the demo: one Linux binary on Linux and Windows workers
	$(Q)$(MAKE) --no-print-directory NEED=demo setup
	$(Q)$(MAKE) --no-print-directory $(jobs) demo-build
	$(Q)$(MAKE) --no-print-directory BUILT=yes demo-run

test: ## install missing packages, run every test (T=NAME for one, T='abi*' for some)
	$(Q)$(MAKE) --no-print-directory setup
	$(Q)$(MAKE) --no-print-directory $(jobs) test-build
	$(Q)$(MAKE) --no-print-directory BUILT=yes test-run

# Suites for a release that take too long for each push. They are strict: a suite
# that fails gets no second chance.
test-full: ## before a release: make test, then reboots, a large demo and programs on lent cores (T=NAME for one)
	$(if $(CHOSEN),,$(Q)$(MAKE) --no-print-directory test)
	$(Q)$(MAKE) --no-print-directory NEED=full setup
	$(Q)$(MAKE) --no-print-directory $(jobs) test-full-build
	$(Q)$(MAKE) --no-print-directory BUILT=yes test-full-run

# The room that contains the demo defines demo_run and demo_needs.
demo-build: $(demo_needs)
demo-run: $(if $(BUILT),,$(demo_needs))
	$(if $(demo_run),$(Q)$(demo_run),@echo "make demo: no room in this tree \
	defines demo_run yet; run 'make' and build/bin/bee instead." >&2; exit 2)

record: $(record_needs) ## run the demo, and draw its terminal for README
	$(if $(record_run),$(Q)$(record_run),@echo "make record: no room in this \
	tree defines record_run yet." >&2; exit 2)

results: $(results_needs) ## make a page of received reports (FILE='a.json b.json')
	$(if $(results_run),$(Q)$(results_run),@echo "make results: no room in this \
	tree defines results_run yet." >&2; exit 2)

claims: $(claims_needs) ## draw the overview in docs/results from its table of figures
	$(if $(claims_run),$(Q)$(claims_run),@echo "make claims: no room in this \
	tree defines claims_run yet." >&2; exit 2)

# Suites ------------------------------------------------------------------

# libFuzzer writes the input of a crash to $(B)/test, not to the source tree. If
# it printed new functions it would start a symbolizer, which may outlive it.
fuzz_out = -print_funcs=0 -artifact_prefix=$(abspath $(B))/test/fuzz-$(1)-

# A fuzzer in Go is FOLDER.FUNCTION. The suites of its package run its seeds; only make fuzz
# makes new inputs, because all that it imports is then compiled once more.
fuzz_go = $(GO) test -run '^$$' -fuzz '^$(subst .,,$(suffix $(1)))$$' -fuzztime $(FUZZ_TIME)s ./$(basename $(1))

FUZZ_SUITES := $(addprefix fuzz-,$(FUZZERS))
$(foreach f,$(FUZZERS),\
	$(eval suite_fuzz-$(f) = $$(fuzz_$(f)) -max_total_time=1 $(call fuzz_out,$(f)))\
	$(eval suite_fuzz-$(f)_needs = $$(fuzz_$(f)_needs))\
	$(eval suite_fuzz-$(f)_kind = fuzz))

ALL_SUITES := $(CHECK_SUITES) $(TEST_SUITES) $(VM_SUITES) $(FUZZ_SUITES)
wine_suites := $(foreach s,$(ALL_SUITES),$(if $(findstring wine,$(s)),$(s)))
# T counts only on the command line, not in the environment. A name may contain
# one *, which stands for any letters.
ifeq ($(origin T),command line)
CHOSEN :=
# $(call choose,targets that take T,what T names,all such names)
choose = $(if $(filter $(1),$(MAKECMDGOALS)),$(foreach t,$(T),$(if $(filter \
	$(subst *,%,$(t)),$(3)),$(eval CHOSEN += $(filter-out \
	$(CHOSEN),$(filter $(subst *,%,$(t)),$(3)))),$(error no $(2) \
	'$(t)'; there are: $(sort $(3))))))
$(call choose,test test-build test-run check,suite,$(ALL_SUITES))
$(call choose,test-full test-full-build test-full-run,suite of make test-full,$(FULL_SUITES))
$(call choose,vm vm-build vm-run,VM suite,$(VM_SUITES:vm-%=%))
$(call choose,wine,suite under Wine,$(wine_suites))
$(call choose,bench,bench,$(BENCHES))
$(call choose,fuzz,fuzzer,$(FUZZERS) $(GO_FUZZERS))
# Other targets refuse T; but a make started by make inherits T with any target.
TAKES_T := test test-build test-run check test-full test-full-build test-full-run vm vm-build vm-run wine bench fuzz
$(if $(filter $(TAKES_T),$(MAKECMDGOALS))$(filter-out 0,$(MAKELEVEL)),,$(error make $(or \
	$(MAKECMDGOALS),$(.DEFAULT_GOAL)) takes no T=; one suite: make test T='$(T)'))
endif

needs = $(foreach s,$(1),$(suite_$(s)_needs) $(if \
	$(findstring $(STEADY),$(suite_$(s))),$(call wine_prefix)))

define newline


endef
# The files of a run of chosen suites have another name than those of a full run.
# The name consists of at most five names of suites.
space := $(subst ,, )
chosen_name = $(subst $(space),+,$(strip $(wordlist 1,5,$(CHOSEN)) $(if $(word \
	6,$(CHOSEN)),to $(lastword $(CHOSEN)) $(words $(CHOSEN)))))
run_name = $(if $(CHOSEN),T-$(chosen_name),$(1))
# One line for each suite: name <tab> kind[,lane[,resource]] <tab> deadline <tab>
# command.
# Suites of the lane "parallel" run in parallel with one another and with those of
# the lane "machines", which run one after the other. Suites without a lane run
# alone, before all others. Suites under Wine share a prefix, whose server each of
# them starts and ends.
tab := $(shell printf '\t')
comma := ,
lane = $(if $(suite_$(1)_alone),,$(if $(filter $(1),$(VM_SUITES)),$(comma)machines,$(if \
	$(filter $(1),$(CHECK_SUITES) $(TEST_SUITES) $(FUZZ_SUITES)),$(comma)parallel$(if \
	$(findstring $(STEADY),$(suite_$(1))),$(comma)wine))))
suite_line = $(1)$(tab)$(or $(suite_$(1)_kind),tap)$(lane)$(tab)$(or \
	$(suite_$(1)_deadline),300)$(tab)$(suite_$(1))$(newline)
# In a whole run, failed suites run again if at most 3 failed and STRICT is not given.
AGAIN := $(if $(and $(filter command,$(origin STRICT)),$(STRICT)),,-again 3)
RUNNER := $(B)/tool/run
write_suites = $(shell mkdir -p $(B)/test)$(file >$(B)/test/$(2).suites,$(foreach \
	s,$(1),$(call suite_line,$(s))))
run_suites = $(if $(dry),,$(call write_suites,$(1),$(2)))$(Q)$(RUNNER) -suites $(B)/test/$(2).suites \
	-logs $(B)/test -results $(2).tsv \
	$(if $(CLOSING),-closing $(CLOSING)) $(3)

$(RUNNER): FORCE
	$(Q)mkdir -p $(B)/tool $(B)/test
	$(Q)$(GO) build -o $@ ./tests/run

test_needs = $(call needed,$(RUNNER) $(if $(CHOSEN),,all) \
	$(call needs,$(or $(CHOSEN),$(ALL_SUITES))))
test-build test-run: $(test_needs)
test-run:
	$(call run_suites,$(or $(CHOSEN),$(ALL_SUITES)),$(call run_name,results),$(if $(CHOSEN),,\
	$(AGAIN) -floor tests/floor:test -spec SPEC.md))

test-full-build test-full-run: $(call needed,$(RUNNER) $(call needs,$(or $(CHOSEN),$(FULL_SUITES))))
test-full-run:
	$(call run_suites,$(or $(CHOSEN),$(FULL_SUITES)),$(call run_name,full))

check: $(RUNNER) $(if $(CHOSEN),,all) $(call needs,$(or $(CHOSEN),$(CHECK_SUITES))) ## run the fast tests: no root, no Wine (T=NAME, T='abi*')
	$(call run_suites,$(or $(CHOSEN),$(CHECK_SUITES)),$(call run_name,check),$(if $(CHOSEN),,\
	$(AGAIN) -floor tests/floor:check -spec SPEC.md -spec-part))

# What any change can break without a suite of its own room: the rules of style, and that
# each command in the pages is typed by a test. At the end it says whether the floor would
# be too low for the tests that suites passed when they ran last, or a promise has no
# number of its own, which a whole run would only find after the build.
style: $(RUNNER) $(call needs,style commands) ## check format, warnings, includes, sizes, licences, spelling, commands in pages
	$(call run_suites,style commands,style)
	$(if $(dry),,$(call write_suites,$(ALL_SUITES),forecast))$(Q)$(RUNNER) -suites $(B)/test/forecast.suites \
	-logs $(B)/test -floor tests/floor:test -spec SPEC.md -forecast

wine: $(RUNNER) $(if $(CHOSEN),,all) $(call needs,$(or $(CHOSEN),$(wine_suites))) ## run the suites under Wine (T=wine-bee for one)
	$(call run_suites,$(or $(CHOSEN),$(wine_suites)),$(call run_name,wine),$(if $(CHOSEN),,$(AGAIN)))

# Virtual machines ---------------------------------------------------------

vm: ## run the tests in virtual machines (T=lab for one)
	$(Q)$(MAKE) --no-print-directory setup
	$(Q)$(MAKE) --no-print-directory $(jobs) vm-build
	$(Q)$(MAKE) --no-print-directory BUILT=yes vm-run

# The time at which the user typed `make vm T=...`; the first make passes it to
# the make that runs the suites.
ifneq ($(and $(CHOSEN),$(filter vm vm-run,$(MAKECMDGOALS))),)
SKEP_VM_BEGAN ?= $(shell date +%s%N)
export SKEP_VM_BEGAN := $(SKEP_VM_BEGAN)
export SKEP_VM_CHOSEN := $(CHOSEN)
endif

vm_chosen = $(or $(CHOSEN:%=vm-%),$(VM_SUITES))
FIRST_TAP := $(B)/lab/.first-tap
vm-build vm-run: $(call needed,$(RUNNER) $(call needs,$(vm_chosen)))
vm-run:
	$(if $(VM_SUITES),,@echo "make vm: no room defines a VM suite yet." >&2; exit 2)
	$(Q)rm -f $(FIRST_TAP)
	$(call run_suites,$(vm_chosen),$(call run_name,vm),$(if $(CHOSEN),,\
	$(AGAIN) -floor tests/floor:vm)) && s=0 || s=$$?; test ! -f $(FIRST_TAP) || cat $(FIRST_TAP); exit $$s

# Benchmarks, fuzzers, soaks, tools ----------------------------------------

# Without the room tests/bench, benchmarks only print.
bench: $(BENCH_RUN) $(claims_needs) $(foreach b,$(or $(CHOSEN),$(BENCHES)),$(bench_$(b)_needs)) ## run the benchmarks (T=bee_call for one), write docs/results/bench and the overview
	$(if $(BENCHES),,@echo "make bench: no room defines a bench yet." >&2; exit 2)
	$(foreach b,$(or $(CHOSEN),$(BENCHES)),$(Q)$(if $(BENCH_RUN),$(call bench_page,$(b)),$(bench_$(b)))$(newline)$(tab))
	$(if $(claims_run),$(Q)$(claims_run))

FUZZ_TIME := 60
# libFuzzer would take a word for 0, which means no time limit.
ifneq ($(filter fuzz,$(MAKECMDGOALS)),)
$(if $(shell expr '$(FUZZ_TIME)' : '[1-9][0-9]*$$' >/dev/null || echo no),$(error \
	make fuzz: FUZZ_TIME is a number of seconds from 1, not '$(FUZZ_TIME)'))
endif
fuzz: $(foreach f,$(or $(CHOSEN),$(FUZZERS)),$(fuzz_$(f)_needs)) ## fuzz each parser for FUZZ_TIME seconds (60; T=abi-elf for one)
	$(if $(FUZZERS),,@echo "make fuzz: no room defines a fuzzer yet." >&2; exit 2)
	$(foreach f,$(or $(CHOSEN),$(FUZZERS) $(GO_FUZZERS)),$(Q)$(if $(filter $(f),$(GO_FUZZERS)),$(call \
		fuzz_go,$(f)),$(fuzz_$(f)) -max_total_time=$(FUZZ_TIME) $(call fuzz_out,$(f)))$(newline)$(tab))

soak: $(soak_$(ROOM)_needs) ## run the long tests of one room: make soak ROOM=o2g
	$(if $(filter $(ROOM),$(SOAKS)),$(Q)$(soak_$(ROOM)),@echo "make soak: \
	name one of: ROOM=$(or $(strip $(SOAKS)),(no room has one yet))" >&2; exit 2)

man: $(MAN_STAMP) ## make the manual pages and scripts for completion: build/man, build/completion

windows-kit: $(windows_kit) ## pack a zip that tests bee and skep on a Windows PC
	$(if $(windows_kit),@echo $(windows_kit),@echo "make windows-kit: \
	no room defines windows_kit yet." >&2; exit 2)

# make runs a line with $(MAKE) under -n too, hence the test of $(dry).
compile_commands.json: FORCE ## write the file that clangd and other C tools read
	$(if $(dry),,$(Q)$(MAKE) -nB V=1 --no-print-directory all $(call needs,$(CHECK_SUITES)) \
		2>/dev/null | sh mk/compile_commands.sh '$(CURDIR)' >$@.new)
	$(Q)mv $@.new $@

format: ## format all C and Python files for make style
	$(Q)git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i
	$(Q)git ls-files -co --exclude-standard '*.py' | BLACK_CACHE_DIR=$(abspath $(B))/black xargs black -q

help: ## print this list
	@sed -n 's/^\([a-z_.-]*\):.*## \(.*\)/  make \1\t\2/p' mk/targets.mk mk/mutants.mk mk/kmod.mk mk/debug.mk packaging/room.mk packaging/release/room.mk python/room.mk | \
	expand -t 30
	@echo; echo "  V=1 shows the commands. Logs of tests: $(B)/test/"

clean: ## remove build/
	$(Q)rm -rf $(B)
