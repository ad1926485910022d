#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the packages of mk/packages.list that are missing, and checks Go.
# A stamp named after the list's digest makes a second call free.
#
# usage: setup.sh BUILD-DIR
set -eu

build=$1
list=$(dirname "$0")/packages.list
go_wanted=1.26

say()
{
	printf 'setup: %s\n' "$*"
}

die()
{
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

check_go()
{
	have=$(go env GOVERSION 2>/dev/null) ||
		die "Go is missing: install Go $go_wanted or newer from" \
			"https://go.dev/dl and put its bin directory in PATH"
	have=${have#go}
	oldest=$(printf '%s\n%s\n' "$go_wanted" "$have" | sort -V | head -n 1)
	[ "$oldest" = "$go_wanted" ] ||
		die "Go $have is too old: install Go $go_wanted or newer from" \
			"https://go.dev/dl and put its bin directory in PATH"
}

# One name per line of those that dpkg does not have.
missing_packages()
{
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list" |
	while read -r name _; do
		state=$(dpkg-query -W -f '${db:Status-Status}' "$name" \
			2>/dev/null) || state=none
		[ "$state" = installed ] || printf '%s\n' "$name"
	done
}

# apt-get as root, or through sudo.
apt()
{
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"
	else
		sudo env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"
	fi
}

install_packages()
{
	command -v apt-get >/dev/null ||
		die "no apt-get here: install these by hand, then rerun:" "$@"
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "not root and no sudo: ask an administrator to run:" \
			"apt-get install --no-install-recommends" "$@"
	say "installing" "$@"
	apt update </dev/null ||
		die "apt-get update failed: check the package sources"
	apt install -y --no-install-recommends "$@" </dev/null ||
		die "apt-get install failed: its message is above"
}

check_go
command -v sha256sum >/dev/null || die "sha256sum is missing (coreutils)"
stamp=$build/setup-$(sha256sum "$list" | cut -c 1-16)
[ ! -e "$stamp" ] || exit 0

if command -v dpkg-query >/dev/null; then
	missing=$(missing_packages)
else
	missing=$(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list" |
		cut -d ' ' -f 1)
fi
# shellcheck disable=SC2086 # a list of package names
[ -z "$missing" ] || install_packages $missing
mkdir -p "$build"
rm -f "$build"/setup-*
: >"$stamp"
say "everything on the list is installed"
