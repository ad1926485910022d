#!/bin/sh
# SPDX-License-Identifier: MIT
# What calls cost under Wine: the requests that the program's thread makes to
# Wine's server, as the server itself prints them. A count does not depend on
# the load of the computer. usage: requests.sh BUILD
set -eu
b=$(cd "$1" && pwd)
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$b" wine
cd "$tmp"
mkdir folder
: >first
: >last
echo file >folder/file
wine "$b/bin/bee.exe" --version >/dev/null 2>&1

# Prints how many requests came between the marks, from the thread that made
# them; "none" if a mark is missing.
count_between() { # log
	awk '
/create_file\( .*\/first" \)$/ { thread = $1; count = 0; next }
$1 != thread { next }
/create_file\( .*\/last" \)$/ { print count; found = 1; exit }
/^[0-9a-f]+: [a-z_]+\( / { count++ }
END { if (!found) print "none" }' "$1"
}

# Passes if N calls of that kind make at most so many requests each. The rest of
# the call that makes the first mark adds two. On a busy computer the thread may
# make another one by itself (once 903 of 300 calls); one for 100 calls may be.
costs() { # name, kind, N, requests of one call
	wineserver -k
	wineserver -w
	# it returns when the server is ready: otherwise wine may start another
	wineserver -d -p 2>log
	within 120 "$b/bin/bee-guard" wine "$b/bin/bee.exe" \
		"$b/test/bee/costs-glibc" "$2" "$3" >got 2>err </dev/null
	code=$?
	wineserver -k
	wineserver -w
	count=$(count_between log)
	echo "$count requests of $3 calls, exit $code" >>got
	echo "at most $4 of each call" >want
	[ "$code" -eq 0 ] && [ "$count" != none ] &&
		[ "$count" -le $(($3 * $4 + 2 + $3 / 100)) ]
	result $? "$1"
}

set +e
costs "open and close: as many requests as Windows' own calls" open 300 3
costs "stat: as many requests as opening, asking and closing" stat 300 3
costs "fstat of an open file: no request" fstat 300 0
costs "clocks: no request" clock 3000 0
costs "poll of a pipe's writer: requests when it begins and ends" writer 4 4
costs "poll of a full eventfd: no request" full 4 0
echo "1..$n"
exit "$failed"
