#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests of Go's own run-time, whose goroutines have stacks of 2 KiB and recover
# from faults on them. usage: go-runtime.sh BUILD TEST-PROGRAM
set -eu
b=$1
WINEPREFIX=${WINEPREFIX:-$(pwd)/$b/wine}
WINEDEBUG=-all
LC_ALL=C.UTF-8
export WINEPREFIX WINEDEBUG LC_ALL
unset DISPLAY
if ! command -v wine >/dev/null 2>&1; then
	echo "Bail out! no wine here; run: make setup"
	exit 1
fi
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
# Wine's services end after its programs, on a busy computer much later.
trap 'wineserver -k || true; wineserver -w || true; rm -rf "$tmp"' EXIT
wine "$b/bin/bee.exe" --version >/dev/null 2>&1
within 280 "$b/bin/bee-guard" wine "$b/bin/bee.exe" "$2" -test.v -test.short \
	-test.run 'TestCallers|TestChan|TestGC$' 2>&1 | tr -d '\r' | awk '
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
