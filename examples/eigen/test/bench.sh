#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the time to solve one point: natively, under bee on Linux, and under
# bee on Windows (Wine). The three alternate, so that a busy moment does not
# slow only one of them.
#
# usage: bench.sh BUILD-DIR [ELEMENTS [ROUNDS]]
set -eu
build=$1
size=${2:-18}
rounds=${3:-3}
point=$build/test/eigen/point
export WINEDEBUG=-all
export WINEPREFIX="$PWD/$build/wine"

median()
{
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

have_wine=$(command -v wine || :)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
i=0
while [ "$i" -lt "$rounds" ]; do
	"$point" --time "$size" 5 | tail -n 1 >>"$dir/native"
	"$build/bin/bee" "$point" --time "$size" 5 | tail -n 1 >>"$dir/linux"
	if [ -n "$have_wine" ]; then
		wine "$build/bin/bee.exe" "$point" --time "$size" 5 2>/dev/null |
			tr -d '\r' | tail -n 1 >>"$dir/wine"
	fi
	i=$((i + 1))
done
native=$(median <"$dir/native")
echo "eigen: native $native s for one point, median of $rounds rounds of 5"
for where in linux wine; do
	[ -s "$dir/$where" ] || continue
	median <"$dir/$where" | awk -v n="$native" -v w="$where" '
		{ printf "eigen: bee-%s %s s, native / bee %.3f (aim 0.97)\n",
			w, $1, n / $1 }'
done
