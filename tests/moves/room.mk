# SPDX-License-Identifier: MIT
# Programs that are moved between two nodes while they run, by skep as users have it.

moves_t := $(B)/test/moves
$(moves_t)/work-glibc: tests/moves/work/work.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -static $(CFLAGS_HOST) -pthread -o $@ $<
$(moves_t)/work-musl: tests/moves/work/work.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(MUSL) -static -std=gnu11 -O2 -pthread -o $@ $<
$(moves_t)/work-dynamic: tests/moves/work/work.c
	$(call say,CC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_HOST) -pthread -o $@ $<

moves_needs := $(B)/bin/skep $(B)/bin/bee $(addprefix $(moves_t)/work-,glibc musl dynamic)
TEST_SUITES += moves
suite_moves = BUILD=$(abspath $(B)) $(GO) test -count=1 -json ./tests/moves
suite_moves_kind = go
suite_moves_needs = $(moves_needs)

# Agents die at 100 moments of moves, and 200 MiB move ten times.
SOAKS += moves
soak_moves = BUILD=$(abspath $(B)) SKEP_MOVES=100 $(GO) test -count=1 -timeout 60m -run 'Deaths|LargeMoves' -v ./tests/moves
soak_moves_needs = $(moves_needs)

# Programs that others wrote, one with its arguments on each line of a file, move three times.
SOAKS += moves-programs
soak_moves-programs = $(if $(PROGRAMS),BUILD=$(abspath $(B)) SKEP_MOVE_PROGRAMS=$(abspath $(PROGRAMS)) \
	$(GO) test -tags=programs -count=1 -timeout 120m -run Programs -v ./tests/moves,\
	echo "make soak ROOM=moves-programs: say which programs: PROGRAMS=FILE, with a" \
	"program and its arguments on each line" >&2; exit 2)
soak_moves-programs_needs = $(moves_needs)
