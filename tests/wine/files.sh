#!/bin/sh
# SPDX-License-Identifier: MIT
# Files that several programs use at once, under bee.exe. usage: files.sh BUILD
set -eu
b=$(cd "$1" && pwd)
set -- "$b"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
# shellcheck source=../../bee/test/locks.sh
. "$(dirname "$0")/../../bee/test/locks.sh"
wine_begin "$b" wine
cd "$tmp"

guarded() {
	within 250 "$b/bin/bee-guard" wine "$b/bin/bee.exe" "$@"
}

native() {
	within 100 "$@"
}

wine "$b/bin/bee.exe" --version >/dev/null 2>&1

# Prints the number of the process that runs one of our programs here.
child() { # words of its command line
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/cwd" 2>/dev/null)" = "$tmp" ] || continue
		tr '\000' ' ' <"$p/cmdline" 2>/dev/null |
			grep -q -- "--child .*$1" && echo "${p#/proc/}"
	done
}

check_kill() { # a bee that is killed drops nothing itself
	rm -f held holding die waiting
	guarded "$g/holder-glibc" hold 2>"$tmp/err" &
	holder=$!
	await_file holding
	guarded "$g/holder-glibc" try
	echo "before $?" >"$tmp/got"
	guarded "$g/holder-musl" wait &
	waiter=$!
	await_file waiting
	kill -KILL "$(child 'holder-glibc hold')"
	wait "$holder" 2>/dev/null
	wait "$waiter"
	echo "waiter $?" >>"$tmp/got"
	printf 'before 1\nwaiter 0\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_ring "record locks: a ring of waiters gets EDEADLK" guarded guarded
check_death "record locks: gone with their owner" guarded guarded
check_stat "stat shows what another program did" guarded
check_pass "record locks: a waiter has them when they are dropped" \
	guarded guarded
check_kill "record locks: gone when their owner is killed"
check_mapped "a mapped file: two programs" guarded guarded
grep -q 'truncation of a file refused (ETXTBSY)' "$tmp/err"
result $? "a mapped file: refused truncation is reported by name"
check_mapped "a mapped file: the other program is native" guarded native
check_mapped "a mapped file: a native program cuts it" native guarded
for mode in delete wal; do
	check_sqlite "sqlite, $mode: 450 rows of three writers" $mode 0 \
		guarded guarded guarded
	check_sqlite "sqlite, $mode: 450 rows, read through a mapping" $mode \
		1000000 guarded guarded guarded
done
echo "1..$n"
exit "$failed"
