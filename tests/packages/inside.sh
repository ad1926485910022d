#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs within the root of a test of packages; each step prints one line:
# inside.sh [VERSION-TO-UPGRADE-TO]
set -eu
next=${1:-}
test=/opt/test
. "$test/apart.sh"
cd /opt/home

say() # name command...
{
	name=$1
	shift
	if "$@" >"$test/said" 2>&1; then
		printf '%s: ok\n' "$name"
	else
		printf '%s: failed\n' "$name"
		tail -n 12 "$test/said" >&2
	fi
}

find_names()
{
	for file in "$test/$1"/*.deb; do
		dpkg-deb -f "$file" Package
	done
}

walk()
{
	rm -rf /opt/home/walk
	mkdir /opt/home/walk
	(cd /opt/home/walk && sh -eu "$test/walk.sh" /usr >"$test/walked" &&
		cmp "$test/walked" "$test/walk.want")
}

# Built for every kernel whose headers are installed, and signed by DKMS's key.
modules_ready() # version
{
	[ -d "/usr/src/skep-$1" ] || return 0
	for headers in /usr/src/linux-headers-*-amd64; do
		release=${headers#/usr/src/linux-headers-}
		dkms status -m skep -v "$1" -k "$release" | tee /dev/stderr |
			grep -q ': installed' || return 1
		for module in dynamos o2g shimos; do
			file=$(find "/lib/modules/$release/updates" -name "$module.ko*")
			modinfo -F vermagic "$file" | grep -qF "$release " &&
				modinfo -F sig_id "$file" | grep -q . || return 1
		done
	done
}

all_gone()
{
	list_changes >"$test/changes"
	cat "$test/changes"
	[ ! -s "$test/changes" ]
}

names=$(find_names first)
# shellcheck disable=SC2086 # names and files
{
	say install dpkg -i "$test"/first/*.deb
	say walk walk
	say modules modules_ready "$(dpkg-query -W -f '${Version}' skep)"
	if [ -n "$next" ]; then
		say upgrade dpkg -i "$test"/second/*.deb
		say version [ "$(dpkg-query -W -f '${Version}' skep)" = "$next" ]
		say walk-again walk
		say modules-again modules_ready "$next"
	fi
	for state in skep skep-kernel skep-trust; do
		mkdir -p "/var/lib/$state/kept"
	done
	say remove dpkg -r $names
	say purge dpkg -P $names
	say nothing-left all_gone
}
