# SPDX-License-Identifier: MIT
# Tools, flags and rules for objects, for all rooms. docs/style.md describes what
# a room.mk may use.

B := build
Q := $(if $(V),,@)

CC := gcc
CLANG := clang
MINGW := x86_64-w64-mingw32-gcc
WINDRES := x86_64-w64-mingw32-windres
MUSL := musl-gcc
GO := go

export CGO_ENABLED := 0
export GOTOOLCHAIN := local
# The same flags for every command: Go would compile its library a second time
# for another -trimpath. The runner limits the time of tests by the computer's
# load; Go's own limit is fixed, so it is off. So is the vet of each package that
# is tested, for which Go reads all that it imports: make style vets all.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false -timeout=0 -vet=off)
# `go test` caches results, but does not see that a file built by make changed.
# So the runner passes -count=1.

WARN := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow \
	-Wundef -Wvla -Werror
INCLUDE := -Iinclude -I.

# Freestanding code (CFLAGS_FREE) finds no system header and uses general
# registers only. Hosted programs, for Linux and Windows, use CFLAGS_HOST.
# Debugging information contains the tree's folder, and a build id depends on it;
# MAP replaces the folder, so that builds in two folders have equal bytes.
MAP := -ffile-prefix-map=$(CURDIR)=.
CFLAGS_FREE := -std=gnu11 -O2 -g $(MAP) -ffreestanding -nostdinc \
	-mgeneral-regs-only -fno-stack-protector $(INCLUDE) $(WARN)
CFLAGS_HOST := -std=gnu11 -O2 -g $(MAP) $(INCLUDE) $(WARN)
# -O1 replaces the -O2 before it: these objects take a third less time to compile, and
# those without sanitizers have the warnings of -O2.
SAN := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
DEPS = -MMD -MP

# $(call say,WHAT) at the start of a recipe prints one line for the file, unless
# V is set.
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(B)/%,%,$@)')

# Objects: $(B)/obj/<toolchain>/<path>.o. A room that needs other flags defines a
# rule with a longer prefix; make uses the more specific rule.
#
#   gcc-free clang-free mingw-free   freestanding
#   san-free                         freestanding source under ASan and UBSan
#   gcc clang mingw san              hosted
OBJECT_GCC_FREE = $(CC) $(CFLAGS_FREE)
OBJECT_CLANG_FREE = $(CLANG) $(CFLAGS_FREE)
OBJECT_MINGW_FREE = $(MINGW) $(CFLAGS_FREE)
OBJECT_SAN_FREE = $(CC) $(filter-out -mgeneral-regs-only,$(CFLAGS_FREE)) $(SAN)
OBJECT_GCC = $(CC) $(CFLAGS_HOST)
OBJECT_CLANG = $(CLANG) $(CFLAGS_HOST)
OBJECT_MINGW = $(MINGW) $(CFLAGS_HOST)
OBJECT_SAN = $(CC) $(CFLAGS_HOST) $(SAN)

define object_rules
$(B)/obj/$(1)/%.o: %.c
	$$(call say,$(3))
	$(Q)mkdir -p $$(@D)
	$(Q)$$($(2)) $$(DEPS) -c -o $$@ $$<
$(B)/obj/$(1)/%.o: %.S
	$$(call say,AS)
	$(Q)mkdir -p $$(@D)
	$(Q)$$($(2)) $$(DEPS) -c -o $$@ $$<
endef
$(eval $(call object_rules,gcc-free,OBJECT_GCC_FREE,CC))
$(eval $(call object_rules,clang-free,OBJECT_CLANG_FREE,CLANG))
$(eval $(call object_rules,mingw-free,OBJECT_MINGW_FREE,MINGW))
$(eval $(call object_rules,san-free,OBJECT_SAN_FREE,SAN))
$(eval $(call object_rules,gcc,OBJECT_GCC,CC))
$(eval $(call object_rules,clang,OBJECT_CLANG,CLANG))
$(eval $(call object_rules,mingw,OBJECT_MINGW,MINGW))
$(eval $(call object_rules,san,OBJECT_SAN,SAN))

# Generated files that objects include; they are built first. Rooms append to it.
GENERATED :=

# Starts each command that starts Wine; the script says why.
STEADY := sh tests/wine/steady.sh
# The Wine prefix of that name, wine-NAME in the build folder, of tests that need one of
# their own; all others share one.
wine_prefix = $(B)/wine$(1:%=-%)/system.reg
