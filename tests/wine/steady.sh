#!/bin/sh
# SPDX-License-Identifier: MIT
# Run a command whose Wine starts do not hang on luck. usage: steady.sh command
#
# Wine must have the page at 0x7ffe0000. Debian's Wine 8 has no preloader that
# takes it first: wine64 is linked to 0x7d000000, and since Linux 6.9 the heap
# of such a program begins anywhere in the GiB behind it. About one start in
# 7000 finds its own heap there and ends with 1 and, under WINEDEBUG=-all,
# without a word. Without randomisation the heap begins right behind wine64.
set -eu
if setarch -R true 2>/dev/null; then
	exec setarch -R "$@"
fi
echo "steady.sh: no leave to switch off address randomisation here; now and" \
	"then a start of Wine will end with 1 and no output" >&2
exec "$@"
