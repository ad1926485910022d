#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes a clean root of a Debian release, once: BUILD/root/SUITE.tar. Its apt
# reaches the archive as this computer's does.
#
# usage: root.sh BUILD SUITE
set -eu

build=$1
suite=$2
tar=$build/root/$suite.tar
[ ! -e "$tar" ] || exit 0
mkdir -p "$build/root"

die()
{
	printf 'root.sh: %s\n' "$*" >&2
	exit 1
}

# Where this computer's apt gets Debian from, and its security updates.
find_site()
{
	apt-get indextargets --format "\$(LABEL) \$(COMPONENT) \$(SITE)" |
		sed -n "s/^$1 main //p" | head -n 1
}

site=$(find_site Debian)
[ -n "$site" ] || die "apt knows no source of Debian: run apt-get update"
security=$(find_site Debian-Security)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
apt-config dump --format '%F "%v";%n' Acquire |
	grep -E '^Acquire::(http|https|Retries|ForceIPv[46])\b' \
		>"$scratch/reach" || true
{
	printf 'deb %s %s main\n' "$site" "$suite"
	printf 'deb %s %s-updates main\n' "$site" "$suite"
	[ -z "$security" ] ||
		printf 'deb %s %s-security main\n' "$security" "$suite"
} >"$scratch/sources"

# shellcheck disable=SC2016 # mmdebstrap's shell expands
mmdebstrap --quiet --mode=root --variant=minbase \
	--aptopt="$scratch/reach" \
	--setup-hook='mkdir -p "$1/etc/apt/apt.conf.d"' \
	--customize-hook="copy-in $scratch/reach /etc/apt/apt.conf.d" \
	--customize-hook='mv "$1/etc/apt/apt.conf.d/reach" "$1/etc/apt/apt.conf.d/99reach"' \
	"$suite" "$scratch/root.tar" - <"$scratch/sources" ||
	die "mmdebstrap failed: its message is above"
mv "$scratch/root.tar" "$tar.part"
mv "$tar.part" "$tar"
