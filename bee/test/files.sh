#!/bin/sh
# SPDX-License-Identifier: MIT
# Files that several programs use at once: each pair runs natively and under
# bee, and both ways mixed. usage: files.sh BUILD
set -eu
b=$(cd "$1" && pwd)
set -- "$b"
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$tmp"

native() {
	timeout 100 "$@"
}

check_ring() { # name, how to run the one, how to run the other
	rm -f 1 2 ring
	{
		"$2" "$g/holder-musl" ring 1 2 &
		"$3" "$g/holder-glibc" ring 2 1 &
		wait
	} >pair 2>"$tmp/err"
	sort pair >"$tmp/got"
	printf 'deadlock\nhad both\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_death() { # name, who holds, who looks
	rm -f held holding die
	"$2" "$g/holder-glibc" hold 2>"$tmp/err" &
	holder=$!
	tries=0
	while [ ! -e holding ] && [ $tries -lt 600 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	"$3" "$g/holder-glibc" try
	echo "before $?" >"$tmp/got"
	"$3" "$g/holder-musl" wait &
	waiter=$!
	: >die
	wait "$holder" 2>/dev/null
	wait "$waiter"
	echo "waiter $?" >>"$tmp/got"
	"$3" "$g/holder-glibc" try
	echo "after $?" >>"$tmp/got"
	printf 'before 1\nwaiter 0\nafter 0\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_sqlite() { # name, journal mode, mmap bytes, how each of three runs
	rm -f base*
	for how in "$4" "$5" "$6"; do
		"$how" "$g/sqlite-glibc" base "$2" "$3" 150 2>>"$tmp/err" &
	done
	wait
	native "$g/sqlite-glibc" base "$2" 0 0 >"$tmp/got" 2>>"$tmp/err"
	printf '450\nok\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_ring "record locks: a ring of waiters is told, natively" native native
check_ring "record locks: a ring of waiters is told" guarded guarded
check_ring "record locks: a ring with a native program is told" guarded native
check_death "record locks: gone with their owner, natively" native native
check_death "record locks: gone with their owner" guarded guarded
check_death "record locks: a native program sees them" guarded native
check_death "record locks: those of a native program are seen" native guarded
for mode in delete wal; do
	check_sqlite "sqlite, $mode: 450 rows natively" $mode 0 \
		native native native
	check_sqlite "sqlite, $mode: 450 rows of three writers" $mode 0 \
		guarded guarded guarded
	check_sqlite "sqlite, $mode: 450 rows, one writer native" $mode 0 \
		guarded native guarded
	check_sqlite "sqlite, $mode: 450 rows, read through a mapping" $mode \
		1000000 guarded guarded native
done
echo "1..$n"
exit "$failed"
