#!/bin/sh
# SPDX-License-Identifier: MIT
# Wine for a test; sourced.
set -eu

# Programs under Wine get the prefix of that name in BUILD unless WINEPREFIX is
# set, no display, and no messages of Wine. Without one the test ends. Call it
# after tests/tap.sh was sourced, whose end it replaces.
wine_begin() { # BUILD, name of the prefix
	WINEPREFIX=${WINEPREFIX:-$(cd "$1" && pwd)/$2}
	WINEDEBUG=-all
	LC_ALL=C.UTF-8
	export WINEPREFIX WINEDEBUG LC_ALL
	unset DISPLAY
	if ! command -v wine >/dev/null 2>&1; then
		echo "Bail out! no wine here; run: make setup"
		exit 1
	fi
	if ! [ -f "$WINEPREFIX/system.reg" ]; then
		echo "Bail out! no Wine prefix here; run: make $1/$2/system.reg"
		exit 1
	fi
	trap wine_end EXIT
}

# Wine's services would end by themselves, on a busy computer much later.
wine_end() {
	wineserver -k || true
	wineserver -w || true
	rm -rf "${tmp:-}"
}

# Turns the output of a Go test program, run with -test.v, into TAP.
tap_of_go() {
	tr -d '\r' | awk '
/^--- (PASS|FAIL|SKIP):/ {
	printf "%s %d - %s\n", $2 == "PASS:" ? "ok" : "not ok", ++n, $3
	if ($2 != "PASS:") bad = 1
	next
}
/^PASS$/ { passed = 1 }
{ print "# " $0 }
END {
	printf "%s %d - the test program ended with status 0\n",
		passed ? "ok" : "not ok", ++n
	print "1.." n
	exit bad || !passed
}'
}
