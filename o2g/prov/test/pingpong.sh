#!/bin/sh
# SPDX-License-Identifier: MIT
# libfabric's own fi_pingpong between two processes over the provider:
# pingpong.sh FOLDER-OF-THE-PROVIDER
set -eu

FI_PROVIDER_PATH=$(realpath "$1")
SKEP_O2G_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export FI_PROVIDER_PATH SKEP_O2G_SECRET
# shellcheck source=../../../tests/tap.sh
. "$(dirname "$0")/../../../tests/tap.sh"
folder=$tmp
port=$((20000 + $$ % 10000))
number=0

judge()
{
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number - $2"
	else
		sed 's/^/# /' "$folder"/*
		echo "not ok $number - $2"
	fi
}

# The client finds a server that is still starting when it tries again.
pingpong()
{
	port=$((port + 1))
	set -- -p o2g -e rdm -I 10 -c "$@"
	limit=$(stretch 120)
	timeout "$limit" fi_pingpong "$@" -B $port >"$folder/server" 2>&1 &
	server=$!
	tries=0
	until timeout "$limit" fi_pingpong "$@" -P $port 127.0.0.1 \
		>"$folder/client" 2>&1; do
		tries=$((tries + 1))
		if [ $tries -gt 50 ] || ! kill -0 $server 2>/dev/null; then
			kill $server 2>/dev/null || true
			wait $server || true
			return 1
		fi
		sleep 0.2
	done
	wait $server && [ "$(grep -c '^[0-9]' "$folder/client")" -ge "$least" ]
}

least=2
pingpong -m msg && r=0 || r=1
judge "$r" "fi_pingpong with messages"
pingpong -m tagged && r=0 || r=1
judge "$r" "fi_pingpong with tagged messages"
least=1
pingpong -m tagged -S 1000003 && r=0 || r=1
judge "$r" "fi_pingpong with a size of its own"
echo "1..$number"
