#!/bin/sh
# SPDX-License-Identifier: MIT
# Creates a clean root of a Debian release, once: BUILD/_root/SUITE, with a
# compiler and what DKMS needs. Its apt uses this computer's mirrors. Go ignores
# folders whose names begin with _.
#
# usage: root.sh BUILD SUITE
set -eu

build=$1
suite=$2
root=$build/_root/$suite
[ ! -e "$root" ] || exit 0
mkdir -p "$build/_root"

die()
{
	printf 'root.sh: %s\n' "$*" >&2
	exit 1
}

# The URLs of this computer's mirrors of Debian and of its security updates.
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

# No kernel package: modules and headers are enough to build modules.
rm -rf "$root.part"
mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
	--aptopt="$scratch/reach" --include=dkms,openssl,gcc,libc6-dev,pkgconf,linux-headers-amd64 \
	"$suite" "$root.part" - <"$scratch/sources" >&2 ||
	die "mmdebstrap failed: its message is above"
rm -rf "$root.part"/var/cache/apt/archives "$root.part"/var/lib/apt/lists \
	"$root.part"/usr/share/doc "$root.part"/usr/share/locale
mv "$root.part" "$root"
