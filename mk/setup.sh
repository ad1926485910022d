#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the missing packages of mk/packages.list that a target needs, and
# checks Go. A stamp, which is named after the list's digest, makes a second call
# fast.
#
# usage: setup.sh BUILD-DIR [demo|test|full]
#
# On a terminal it asks first, unless YES is set. Without a terminal it installs
# only if YES is set, or CI, which most services for continuous integration set.
set -eu

build=$1
last=${2:-test}
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
	have=$(go env GOVERSION 2>/dev/null) && why="Go ${have#go} is too old" ||
		why="Go is missing"
	[ "$(printf '%s\n' "$go_wanted" "${have#go}" | sort -V | head -n 1)" = "$go_wanted" ] ||
		die "$why: install Go $go_wanted or newer from https://go.dev/dl" \
			"and put its bin directory in PATH"
}

# Prints the packages of the sections up to the section $last.
list_packages()
{
	done=
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$list" |
	while read -r name _; do
		case $name in
		\[*\]) [ -z "$done" ] || break
			[ "$name" != "[$last]" ] || done=yes ;;
		*) printf '%s\n' "$name" ;;
		esac
	done
}

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
is_known() { apt-cache show "$1" >/dev/null 2>&1; }

# Prints the packages that are not installed, one per line. Of ONE|OTHER, either will
# do, and OTHER is missing if apt knows only that.
missing_packages()
{
	list_packages |
	while read -r name; do
		one=${name%%|*} other=${name#*|}
		! { is_installed "$one" || is_installed "$other"; } || continue
		is_known "$one" || ! is_known "$other" || one=$other
		printf '%s\n' "$one"
	done
}

# Prints what apt is going to do: how many packages it installs, and which
# installed packages it upgrades because a new package needs a newer version.
show_plan()
{
	plan=$(LC_ALL=C apt-get -s install --no-upgrade --no-install-recommends \
		"$@" </dev/null 2>&1) || die "apt-get cannot: $plan"
	count=$(printf '%s\n' "$plan" | sed -n '/^Inst [^ ]* (/p' | sed -n '$=')
	newer=$(printf '%s\n' "$plan" | sed -n 's/^Inst \([^ ]*\) \[.*/\1/p')
	say "with what they need these are ${count:-0} packages"
	# shellcheck disable=SC2086 # names
	[ -z "$newer" ] || say "newer ones of installed packages are among them:" $newer
}

# YES or CI is the owner's agreement; without it the owner is asked.
is_agreed() { [ -n "${YES:-}${CI:-}" ]; }

find_owner()
{
	is_agreed || { [ -t 0 ] && [ -t 1 ]; } ||
		die "nothing was installed: there is no terminal to ask on;" \
			"give YES=1 to install them"
}

ask_owner()
{
	is_agreed && return
	printf 'setup: install them? [y/N] '
	read -r answer || answer=
	case $answer in
	[yY]*) ;;
	*) die "nothing was installed" ;;
	esac
}

# Runs apt-get as root, through sudo if necessary.
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
	say "these packages are missing:" "$@"
	find_owner
	apt update </dev/null ||
		die "apt-get update failed: check the package sources"
	# shellcheck disable=SC2046 # names, now that apt knows this release
	set -- $(missing_packages)
	show_plan "$@"
	ask_owner
	apt install -y --no-upgrade --no-install-recommends "$@" </dev/null ||
		die "apt-get install failed: its message is above"
}

check_go
command -v sha256sum >/dev/null || die "sha256sum is missing (coreutils)"
case $last in demo|test|full) ;; *) die "demo, test or full, not $last" ;; esac
stamp=$build/setup-$last-$(sha256sum "$list" | cut -c 1-16)
[ ! -e "$stamp" ] || exit 0

if command -v dpkg-query >/dev/null; then
	missing=$(missing_packages)
else
	missing=$(list_packages)
fi
# shellcheck disable=SC2086 # a list of package names
[ -z "$missing" ] || install_packages $missing
mkdir -p "$build"
rm -f "$build/setup-$last"-*
: >"$stamp"
say "everything that $last needs is installed"
