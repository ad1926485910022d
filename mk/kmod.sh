#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds one kernel module for one kernel, in a mirror of its sources. mk/kmod.mk
# says what a module's Kbuild file may rely on.
#
# usage: kmod.sh KERNEL-DIR OUT-DIR NAME FOLDER [FOLDER-OR-FILE...]
set -eu
export LC_ALL=C

die()
{
	printf 'kmod: %s\n' "$*" >&2
	exit 1
}

kernel=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
name=$3
folder=$4
shift 3
mirror=$out/src
log=$out/log
top=$(pwd)

command -v sparse >/dev/null || die "sparse is missing: run make setup"
[ -e "$folder/Kbuild" ] || die "$name: there is no $folder/Kbuild"

# Objects of another kernel, or of these sources at another place, are no use:
# Kbuild compares times, and a package's files carry those of their making.
if [ -n "$(find "$kernel/release" -newer "$out/stamp" 2>&1)" ] ||
	[ "$(cat "$out/stamp")" != "$top" ]; then
	rm -rf "$mirror"
fi
printf '%s\n' "$top" >"$out/stamp"

# Links, so that nothing is written beside the sources; repeated names of
# folders keep the paths between them.
link()
{
	mkdir -p "$mirror"
	for path; do
		[ -e "$path" ] || die "$name: $path is not there"
		mkdir -p "$mirror/$(dirname "$path")"
		cp -rsfT "$top/$path" "$mirror/$path"
	done
	# Go would take these for packages of the tree.
	find "$mirror" -name '*.go' -delete
}

# Kbuild does not miss a header that is gone: start anew.
link "$@"
if [ -n "$(find "$mirror" -xtype l)" ]; then
	rm -rf "$mirror"
	link "$@"
fi

# The text of messages and of __FILE__ names the sources, not the mirror.
show()
{
	sed "s|$mirror/||g" "$log" >&2
}

rm -f "$out/$name.ko"
: >"$out/began"
if ! make --no-print-directory -C "$kernel/headers" \
	M="$mirror/$folder" SKEP="$mirror" W=1 C=1 \
	CF="-D__CHECK_ENDIAN__ -Wsparse-error" \
	KCFLAGS="-Werror -ffile-prefix-map=$mirror/=" \
	${V:+V=$V} modules >"$log" 2>&1; then
	show
	die "$name does not build for $(cat "$kernel/release")"
fi
[ -z "${V:-}" ] || show

# Two notices are expected: a newer build of the same gcc, and no BTF where
# Debian gives no vmlinux. modpost only warns, so what it said is looked for.
if grep -i 'warning\|error:' "$log" |
	grep -v 'the compiler differs from the one used to build' >/dev/null; then
	show
	rm -rf "$mirror"
	die "$name builds with warnings for $(cat "$kernel/release")"
fi
# Objects of before and after a change make one module that crashes, and their
# times tell nothing.
if [ -n "$(find -L "$mirror" -name '*.[chS]' -newer "$out/began" ! -name '*.mod.c')" ]; then
	rm -rf "$mirror"
	die "$name: its sources changed while it was built: build it again"
fi
[ -e "$mirror/$folder/$name.ko" ] ||
	die "$name: $folder/Kbuild made no $name.ko; want obj-m := $name.o"
# Make takes a torn copy, newer than its sources, for the module.
cp "$mirror/$folder/$name.ko" "$out/$name.ko.part"
mv "$out/$name.ko.part" "$out/$name.ko"
