#!/bin/sh
# SPDX-License-Identifier: MIT
# The packages on a clean root of a Debian release: installed with DKMS,
# upgraded to a higher version, removed and purged: clean.sh BUILD SUITE VERSION
set -eu
build=$1
suite=$2
version=$3
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/apart.sh"
next=$version.1
begin_root "$build" "$suite" packages

DEB_LEVEL=0
export DEB_LEVEL
within 120 sh packaging/deb.sh "$build" "$at/first" "$version" >"$tmp/err" 2>&1 &&
	within 120 sh packaging/deb.sh "$build" "$at/second" "$next" \
		>"$tmp/err" 2>&1 && r=0 || r=1
result "$r" "packages of two versions"

cp tests/packages/*.sh "$at"
printf 'hello: 10 20 30 40, together 100\nbee: ran\npython: 34\ndoctor: bee ok\nlab: 1\n' \
	>"$at/walk.want"
judge_steps 1200 "$suite" inside.sh "$next" <<'END'
install the packages are installed
walk hello without the source tree
modules DKMS built the modules, and signed them
upgrade the packages of a higher version are installed
version and have taken the place of the first
walk-again hello after the upgrade
modules-again DKMS built the modules of the new version
remove the packages are removed
purge and purged
nothing-left nothing is left
END

printf 'mine\nroot\n' >"$tmp/want"
run_apart 1800 "$root" "$top" "$at" lab.sh >"$tmp/said" 2>"$tmp/err" || true
grep -qE '^6\.1\.0-[0-9]+-amd64$' "$tmp/said" &&
	grep -xE 'mine|root' "$tmp/said" >"$tmp/got" &&
	cmp -s "$tmp/want" "$tmp/got" && r=0 || r=1
result "$r" "$suite: a command runs in a machine of the lab"

end_root
