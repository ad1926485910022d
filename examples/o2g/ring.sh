#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the ring with one to eight processes: ring.sh RING
set -eu

ring=$1
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
folder=$tmp
SKEP_O2G_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export SKEP_O2G_SECRET SKEP_O2G_IFACE=lo

number=0
for size in 1 2 3 8; do
	mkdir "$folder/$size"
	limit=$(stretch 120)
	rank=1
	pids=
	while [ "$rank" -lt "$size" ]; do
		timeout "$limit" "$ring" "$folder/$size" "$rank" "$size" &
		pids="$pids $!"
		rank=$((rank + 1))
	done
	number=$((number + 1))
	result="not ok"
	said=$(timeout "$limit" "$ring" "$folder/$size" 0 "$size") || said=failed
	[ "$said" = "$size processes counted to $size" ] && result=ok
	for pid in $pids; do
		wait "$pid" || result="not ok"
	done
	echo "$result $number - a ring of $size: $said"
done
number=$((number + 1))
if SKEP_O2G_SECRET='' timeout "$limit" "$ring" "$folder" 0 1 2>"$folder/said"; then
	echo "not ok $number - a ring without a secret"
else
	grep -q 'skep mpirun' "$folder/said" || printf 'not '
	echo "ok $number - a ring without a secret says what to do"
fi
echo "1..$number"
