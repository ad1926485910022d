#!/bin/sh
# SPDX-License-Identifier: MIT
# How many small calls a second do masters get done together on two slots?
set -eu
skep=$1 master=$2 modules=$3
state=$(mktemp -d)
"$skep" up --state "$state" --listen 127.0.0.1:0 --slots 2 >"$state/up.log" 2>&1 &
hub=$!
trap 'kill $hub; wait $hub || :; rm -rf "$state"' EXIT
until "$skep" nodes --state "$state" 2>/dev/null | grep -q ' up '; do sleep 0.1; done

# together N CALLS: N masters of so many calls each.
together() {
	begin=$(date +%s%N)
	pids=
	for i in $(seq "$1"); do
		"$skep" run --state "$state" --modules "$modules" -- \
			"$master" calls "$2" >"$state/out.$i" 2>&1 &
		pids="$pids $!"
	done
	for pid in $pids; do wait "$pid"; done
	spent=$((($(date +%s%N) - begin) / 1000000))
	echo "$1 masters, $2 calls each: $(($1 * $2 * 1000 / spent)) calls/s"
}
for n in 1 2 4 16; do
	together "$n" $((8000 / n))
done
