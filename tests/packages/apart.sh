#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions for tests of packages in a private root, sourced. Files written there
# are in a tmpfs and are lost with the namespace.
# shellcheck disable=SC2154 # tap.sh sets n, failed and tmp
set -eu

# Runs a script in an overlay of ROOT (`/` is this computer's), which it may
# change, with the folder HIDE empty and FOLDER mounted at /opt/test.
run_apart() # seconds root hide folder script argument...
{
	limit=$1
	shift
	id=
	[ "$(id -u)" = 0 ] || id=--map-root-user
	# shellcheck disable=SC2016,SC2086 # the inner shell expands; one option
	within "$limit" unshare $id --mount --pid --fork --kill-child sh -eu -c '
		root=$1 hide=$2 folder=$3 script=$4
		shift 4
		at=$(mktemp -d)
		trap "umount -l $at; rmdir $at" EXIT
		mount -t tmpfs none "$at"
		mkdir "$at/up" "$at/work" "$at/root" "$at/test"
		mount --bind "$folder" "$at/test"
		mount -t overlay -o "lowerdir=$root,upperdir=$at/up,workdir=$at/work" none "$at/root"
		mount --rbind /dev "$at/root/dev"
		mount -t proc none "$at/root/proc"
		mount --rbind /sys "$at/root/sys"
		mkdir -p "$at/root/opt/test" "$at/root/opt/home" "$at/root/tmp" \
			"$at/root/opt/upper" "$at/root/opt/lower"
		mount --bind "$at/up" "$at/root/opt/upper"
		mount --bind "$root" "$at/root/opt/lower"
		mount -t tmpfs none "$at/root/tmp"
		[ ! -d "$at/root$hide" ] || mount -t tmpfs none "$at/root$hide"
		mount --bind "$at/test" "$at/root/opt/test"
		env -i HOME=/opt/home LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
			PATH=/usr/bin:/bin:/usr/sbin:/sbin \
			chroot "$at/root" sh -eu "/opt/test/$script" "$@" </dev/null
		' sh "$@"
}

# Creates the root of a release once, and an empty folder for the test: sets top, at
# and root. Go tools ignore at, since its name begins with _. The caller sourced tap.sh.
begin_root() # build suite name-of-test
{
	top=$(pwd)
	at=$(realpath "$1")/test/_$3-$2
	root=$(realpath "$1")/_root/$2
	rm -rf "$at"
	mkdir -p "$at"
	within 900 sh tests/packages/root.sh "$1" "$2" >"$tmp/err" 2>&1 &&
		r=0 || r=1
	result "$r" "a clean root of $2"
}

# Runs a script as run_apart does, with at mounted, and then judges its steps.
judge_steps() # seconds suite script argument...
{
	limit=$1
	suite=$2
	shift 2
	run_apart "$limit" "$root" "$top" "$at" "$@" >"$tmp/got" 2>"$tmp/err" || true
	read_steps "$suite"
}

# Judges the output of a script, got. Each line of the input is a step, for which the
# script prints `STEP: ok`, and the name of its test.
read_steps() # suite
{
	while read -r step name; do
		grep -qx "$step: ok" "$tmp/got" && r=0 || r=1
		result "$r" "$1: $name"
	done
}

# Removes the test's folder, and ends with the plan of its TAP.
end_root()
{
	rm -rf "$at"
	echo "1..$n"
	exit "$failed"
}

# Lists the differences from the root: the files of the overlay's upper layer,
# where a device 0:0 stands for a removed file. It omits files in which dpkg,
# ldconfig, depmod and DKMS keep their state.
list_changes()
{
	(cd /opt/upper && find . \( -path ./opt -o -path ./tmp -o -path ./run -o -path ./var/lib/dpkg \
		-o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log \
		-o -path ./etc/ld.so.cache -o -path './var/lib/dkms/mok.*' \
		-o -path './usr/lib/modules/*/modules.*' \) -prune -o ! -name . -print) |
	while read -r path; do
		{ [ -d "/opt/upper/$path" ] && [ -d "/opt/lower/$path" ]; } ||
			echo "$path"
	done
}
