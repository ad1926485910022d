#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds one kernel module for one kernel, in a mirror: a folder of links to its
# sources. mk/kmod.mk describes what a module's Kbuild file may use.
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

# Objects that were built for another kernel, or in another folder, must go.
# Kbuild would keep them, because it compares times, and the files of a kernel
# package are older than the objects.
if [ -n "$(find "$kernel/release" -newer "$out/stamp" 2>&1)" ] ||
	[ "$(cat "$out/stamp")" != "$top" ]; then
	rm -rf "$mirror"
fi
printf '%s\n' "$top" >"$out/stamp"

# Links, so that Kbuild writes nothing beside the sources. The mirror has the same
# folders as the tree, so relative paths still work.
link()
{
	mkdir -p "$mirror"
	for path; do
		[ -e "$path" ] || die "$name: $path is not there"
		mkdir -p "$mirror/$(dirname "$path")"
		cp -rsfT "$top/$path" "$mirror/$path"
	done
	# Otherwise Go would find packages of the tree here.
	find "$mirror" -name '*.go' -delete
}

# Kbuild does not notice that a header was removed, so the mirror starts anew.
link "$@"
if [ -n "$(find "$mirror" -xtype l)" ]; then
	rm -rf "$mirror"
	link "$@"
fi

# Prints the log with the paths of the sources instead of the mirror's.
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

# modpost only warns, so the log is searched for warnings. One is expected: that
# the kernel was built by another build of the same gcc.
if grep -i 'warning\|error:' "$log" |
	grep -v 'the compiler differs from the one used to build' >/dev/null; then
	show
	rm -rf "$mirror"
	die "$name builds with warnings for $(cat "$kernel/release")"
fi
# A module that mixes objects from before and after a change of a header would
# crash, and the times of the objects do not show it.
if [ -n "$(find -L "$mirror" -name '*.[chS]' -newer "$out/began" ! -name '*.mod.c')" ]; then
	rm -rf "$mirror"
	die "$name: its sources changed while it was built: build it again"
fi
[ -e "$mirror/$folder/$name.ko" ] ||
	die "$name: $folder/Kbuild made no $name.ko; want obj-m := $name.o"
# make would accept an incomplete copy, because it is newer than the sources.
cp "$mirror/$folder/$name.ko" "$out/$name.ko.part"
mv "$out/$name.ko.part" "$out/$name.ko"
