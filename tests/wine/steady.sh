#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a command so that its starts of Wine do not fail at random. usage:
# steady.sh command
#
# Wine needs the page at 0x7ffe0000. Debian's Wine 8 has no preloader that
# reserves it: wine64 is linked to 0x7d000000, and since Linux 6.9 the heap of
# such a program begins at a random address in the GiB after it. In about one
# start of 7000 the heap is at that page, and Wine ends with 1, under
# WINEDEBUG=-all without a message. Without randomisation the heap begins
# immediately after wine64.
set -eu
if setarch -R true 2>/dev/null; then
	exec setarch -R "$@"
fi
echo "steady.sh: no leave to switch off address randomisation here; now and" \
	"then a start of Wine will end with 1 and no output" >&2
exec "$@"
