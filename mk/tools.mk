# SPDX-License-Identifier: MIT
# Tools, flags and the object rules that every room shares. docs/style.md says
# what a room.mk may rely on.

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
# The same for all: with and without -trimpath, Go compiles its library twice.
# Tests have no time limit of Go's own, which does not follow the computer's
# load; the runner's does.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -buildvcs=false -timeout=0)
# Go tests go through `go test`, whose cache is safe only without files that
# make built; the runner passes -count=1.

WARN := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow \
	-Wundef -Wvla -Werror
INCLUDE := -Iinclude -I.

# Freestanding code: no header of any system can be found, general registers
# only. Host programs (Linux and, through MINGW, Windows) take CFLAGS_HOST.
# Debugging information names the tree's folder, and with it a library's build
# id: two builds in different folders are to have equal bytes.
MAP := -ffile-prefix-map=$(CURDIR)=.
CFLAGS_FREE := -std=gnu11 -O2 -g $(MAP) -ffreestanding -nostdinc \
	-mgeneral-regs-only -fno-stack-protector $(INCLUDE) $(WARN)
CFLAGS_HOST := -std=gnu11 -O2 -g $(MAP) $(INCLUDE) $(WARN)
SAN := -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
DEPS = -MMD -MP

# One line per file when V is not set: $(call say,WHAT) at the start of a recipe.
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(B)/%,%,$@)')

# Objects: $(B)/obj/<toolchain>/<path>.o. A room that needs other flags gives
# its own rule with a longer prefix; make takes the more specific one.
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

# Generated files that objects include come first; rooms append to this list.
GENERATED :=

# What starts Wine is started by this, which says why.
STEADY := sh tests/wine/steady.sh
