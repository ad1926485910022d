#!/bin/sh
# SPDX-License-Identifier: MIT
# TAP: a guest makes random system calls, for a few fixed seeds and one new
# one. bee must not fail, hang or exhaust a resource permanently.
# usage: calls.sh BUILD [MILLISECONDS [SEED...]]
set -eu

b=$1
ms=${2:-900}
if [ $# -le 2 ]; then shift $#; else shift 2; fi
fresh=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
[ $# -gt 0 ] || set -- 1 6 25 28 "$fresh"
# shellcheck source=../tap.sh
. "$(dirname "$0")/../tap.sh"
bad=0
# Random calls make and remove System V objects: those of a namespace, if there can be one.
for apart in "unshare --ipc" "unshare --user --map-current-user --ipc" ""; do
	if $apart true 2>/dev/null; then break; fi
done
for seed in "$@"; do
	n=$((n + 1))
	mkdir "$tmp/root$n"
	name="random calls, seed $n"
	[ "$seed" != "$fresh" ] || name="random calls, a new seed"
	rc=0
	# shellcheck disable=SC2086 # words
	within 60 $apart "$b/bin/bee-guard" "$b/bin/bee" \
		--root "$tmp/root$n" "$b/test/fuzz/calls" "$seed" "$ms" \
		</dev/null >"$tmp/out" 2>"$tmp/err" || rc=$?
	echo "# seed $seed"
	if [ "$rc" -eq 0 ] && grep -aqx sound "$tmp/out"; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		echo "# exit code $rc"
		tail -n 20 "$tmp/out" "$tmp/err" | tr -cd '[:print:]\n' | sed 's/^/# /'
		bad=1
	fi
done
echo "1..$n"
exit "$bad"
