#!/bin/sh
# SPDX-License-Identifier: MIT
# Files that several programs use at once: each pair runs natively and under
# bee, and both ways mixed. usage: files.sh BUILD
set -eu
b=$(cd "$1" && pwd)
set -- "$b"
# shellcheck source=bee/test/locks.sh
. "$(dirname "$0")/locks.sh"
cd "$tmp"

native() {
	within 100 "$@"
}

check_stat "stat shows what another program did, natively" native
check_ring "record locks: a ring of waiters gets EDEADLK, natively" native native
check_ring "record locks: a ring of waiters gets EDEADLK" guarded guarded
check_ring "record locks: a ring with a native program gets EDEADLK" guarded native
check_death "record locks: gone with their owner, natively" native native
check_death "record locks: gone with their owner" guarded guarded
check_death "record locks: a native program sees them" guarded native
check_death "record locks: those of a native program are seen" native guarded
check_stat "stat shows what another program did" guarded
check_pass "record locks: a waiter has them when they are dropped" \
	guarded guarded
check_pass "record locks: a native waiter has them when they are dropped" \
	guarded native
check_mapped "a mapped file: two programs natively" native native
check_mapped "a mapped file: two programs" guarded guarded
check_mapped "a mapped file: one program native" native guarded
mkdir modes
(umask 026 && guarded "$g/reach-glibc" make modes/a dir modes/b mask 0 \
	make modes/c dir modes/d mask 053 make modes/e) >/dev/null 2>"$tmp/err"
(cd modes && stat -c '%n %a' ./*) >"$tmp/got"
printf './%s\n' 'a 640' 'b 751' 'c 666' 'd 777' 'e 624' >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "a program has the umask that it got, and then its own"
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
