#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one program natively and under bee, with bee's guard, and compares the
# bits of each point.
#
# usage: bee.sh BUILD-DIR linux|wine
set -eu
build=$1
point=$build/test/eigen/point
count=0
if [ "$2" = wine ]; then
	# shellcheck source=../../../tests/wine/wine.sh
	. "$(dirname "$0")/../../../tests/wine/wine.sh"
	wine_begin "$build" wine
	set -- wine "$build/bin/bee.exe"
else
	set -- "$build/bin/bee"
fi
loader=$*

ok()
{
	count=$((count + 1))
	printf '%s %d - %s\n' "$1" "$count" "$2"
}

same()
{
	native=$("$point" "$1" 3)
	# shellcheck disable=SC2086 # the loader may be two words
	bee=$("$build/bin/bee-guard" $loader "$point" "$1" 3) || bee=failed
	if [ "$(printf '%s\n' "$native" | wc -l)" = 3 ] &&
		[ "$native" = "$bee" ]; then
		ok ok "$2"
	else
		ok 'not ok' "$2"
		printf '# native %s\n# bee    %s\n' "$native" "$bee" | tr '\n' ' '
		echo
	fi
}

same 5 'a small problem has the same bits under bee'
same 14 'a larger problem has the same bits under bee'
one=$("$point" 5 1)
two=$("$point" 6 1)
if [ "$one" != "$two" ]; then
	ok ok 'different problems have different bits'
else
	ok 'not ok' 'different problems have different bits'
fi
echo "1..$count"
