#!/bin/sh
# SPDX-License-Identifier: MIT
# Packs the Windows kit: programs, and their output on Linux, which it records now.
# usage: make.sh BUILD ZIP
set -eu
b=$1
zip=$2
here=$(dirname "$0")
# shellcheck source=../../../tests/tap.sh
. "$here/../../../tests/tap.sh" # $tmp, within
k=$tmp/skep-kit
mkdir -p "$k/programs" "$k/expected"
cp "$b/bin/bee.exe" "$b/bin/skep.exe" "$here/kit.tbl" "$k"
sed 's/$/\r/' "$here/kit.cmd" >"$k/kit.cmd"
sed 's/$/\r/' "$here/README.txt" >"$k/README.txt"
printf 'a line\r\nand \000\032\377 bytes\n' >"$k/expected/input.in"

grep -v '^#' "$here/kit.tbl" | while read -r name program args; do
	mkdir -p "$k/programs/$(dirname "$program")"
	[ -e "$k/programs/$program" ] ||
		cp "$b/conformance/$program" "$k/programs/$program"
	in=$k/expected/$name.in
	[ -e "$in" ] || in=/dev/null
	code=0
	# The braces hide the shell's messages about processes killed by a signal.
	# shellcheck disable=SC2086 # words of the table
	{ (cd "$k" && within 20 env -i "./programs/$program" $args) \
		<"$in" >"$k/expected/$name.out" || code=$?; } 2>/dev/null
	[ "$code" -ne 124 ] || { echo "kit: $name hangs on Linux" >&2; exit 1; }
	echo "$code" >"$k/expected/$name.code"
done
mkdir -p "$k/programs/bench"
cp "$b/bench/linux/calls" "$b/bench/linux/noise" "$b/test/eigen/point" \
	"$k/programs/bench"
rm -f "$zip"
root=$(pwd)
(cd "$tmp" && TZ=UTC zip -q -r -X "$root/$zip" skep-kit)
