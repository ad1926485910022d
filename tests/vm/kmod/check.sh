#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Holds mk/kmod.mk to what it promises: our modules fit their kernels, whatever
# a checker finds stops the build, sources stay clean, and nothing is built
# twice. Plants modules in a small tree that uses the same fragment.
#
# usage: check.sh BUILD-DIR SERIES... (from the top of the tree)
set -eu
. tests/tap.sh
unset MAKEFLAGS MFLAGS MAKELEVEL V

build=$(realpath "$1")
shift
first=$1
top=$(pwd)
scratch=$build/test/kmod
PATH=$PATH:/usr/sbin:/sbin

# A module whose main.c is standard input.
module() { # name
	mkdir -p "$scratch/$1/kmod"
	printf 'obj-m := %s.o\n%s-y := main.o\n' "$1" "$1" >"$scratch/$1/kmod/Kbuild"
	{
		echo '#include <linux/module.h>'
		echo 'MODULE_LICENSE("GPL"); MODULE_DESCRIPTION("for a test");'
		cat
	} >"$scratch/$1/kmod/main.c"
}

run() { # series module [make's options]
	where=build/kmod/$1/$2/$2.ko
	shift 2
	make -C "$scratch" --no-print-directory DEBUG_KERNELS=build/kernel \
		"$@" "$where" >"$tmp/got" 2>&1
}

# Fails, names the cause and its source, and leaves no module, twice over.
refuses() { # module series cause
	rc=0
	for _ in once again; do
		! run "$2" "$1" || rc=1
		grep -q "$3" "$tmp/got" || rc=1
		[ ! -e "$scratch/build/kmod/$2/$1/$1.ko" ] || rc=1
	done
	echo "two failures that say: $3" >"$tmp/want"
	return $rc
}

stops() { # module cause text
	rc=0
	refuses "$1" "$s" "$2" || rc=1
	result $rc "$3 stops the build for $s"
}

sources() {
	(cd "$scratch" && find . -path ./build -prune -o -printf '%p %y %s %T@\n' | sort)
}

rm -rf "$scratch"
mkdir -p "$scratch/build/tool" "$scratch/common"
ln -s "$top/mk" "$scratch/mk"
for s; do
	mkdir -p "$scratch/build/kernel/$s"
	kernel=$build/kernel/$s
	[ -d "$kernel" ] || kernel=${XDG_CACHE_HOME:-$HOME/.cache}/skep/kernel/$s
	ln -s "$kernel/headers" "$scratch/build/kernel/$s"
	cp "$kernel/release" "$scratch/build/kernel/$s"
done
cat >"$scratch/Makefile" <<END
include mk/tools.mk
KMODS := good w1 sparse compile modpost moving
KMOD_SERIES := $*
kmod_good = good/kmod
kmod_good_with = good/core good/include/skep/part.h
\$(foreach m,w1 sparse compile modpost moving,\$(eval kmod_\$(m) = \$(m)/kmod))
include mk/kmod.mk
END
module w1 <<'END'
static int __init start(void) { int unused; unused = 1; return 0; }
module_init(start);
END
module sparse <<'END'
int peek(int __user *at); int peek(int __user *at) { return *at; }
END
module compile <<'END'
static int broken(void) { return nonsense; }
END
module modpost <<'END'
static noinline int __init start(void) { return 0; }
int stop(void); int stop(void) { return start(); }
END
echo | module moving
echo "\$(shell touch \$(SKEP)/moving/kmod/main.c)" >>"$scratch/moving/kmod/Kbuild"
module good <<'END'
#include <skep/part.h>
static int __init start(void) { return part(); }
module_init(start);
END
mkdir -p "$scratch/good/core" "$scratch/good/include/skep"
echo "good-y += ../core/part.o
ccflags-y := -I\$(SKEP)/good/include" >>"$scratch/good/kmod/Kbuild"
echo 'int part(void);' >"$scratch/good/include/skep/part.h"
printf '#include <skep/part.h>\nint part(void)\n{ return 0; }\n' \
	>"$scratch/good/core/part.c"
sources >"$tmp/before"

for s; do
	for m in trivial planted; do
		sed 's/$/ /' "$scratch/build/kernel/$s/release" >"$tmp/want"
		modinfo -F vermagic "$build/kmod/$s/$m/$m.ko" >"$tmp/got" 2>&1 || true
		grep -qF "$(cat "$tmp/want")" "$tmp/got" && rc=0 || rc=1
		result "$rc" "$m fits kernel $s"
	done
	run "$s" good && rc=0 || rc=1
	result "$rc" "a module with parts elsewhere builds for $s"
	[ "$s" = "$first" ] || continue # the checkers are the same for each kernel
	stops w1 '^w1/kmod/main.c:.*\[-Werror=unused-but-set-variable\]' "a warning of W=1"
	stops sparse '^sparse/kmod/main.c:.*dereference of noderef' "an error of sparse"
	stops compile "^compile/kmod/main.c:.*nonsense.*undeclared" "an error of the compiler"
	stops modpost 'ection mismatch' "a warning of modpost"
done

sources >"$tmp/got"
cp "$tmp/before" "$tmp/want"
cmp -s "$tmp/want" "$tmp/got" && rc=0 || rc=1
result "$rc" "sources stay clean"

run "$first" good -q && rc=0 || rc=1
result "$rc" "a second make does nothing"
rm "$scratch/build/kmod/$first/good/good.ko"
make -C "$scratch" DEBUG_KERNELS=build/kernel KMODS=good kmod >"$tmp/got" 2>&1 || true
[ -e "$scratch/build/kmod/$first/good/good.ko" ] && rc=0 || rc=1
result "$rc" "make kmod builds a module that is missing"
s=$first
stops moving 'changed while it was built' "a source that changes meanwhile"
touch "$scratch/build/kernel/$first/release"
rc=0
! run "$first" good -q || rc=1
run "$first" good V=1 || rc=1
grep -q 'good/kmod/main.c' "$tmp/got" || rc=1
result $rc "a new kernel builds its modules again"
touch -d '1 minute ago' "$scratch/build/kmod/$first/good/good.ko"
rm "$scratch/good/core/part.c"
echo >"$scratch/good/core/other.c"
rc=0
refuses good "$first" 'No rule to make.*part.o' || rc=1
result $rc "a removed source is removed from the build"

echo "1..$n"
exit "$failed"
