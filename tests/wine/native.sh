#!/bin/sh
# SPDX-License-Identifier: MIT
# Locks that bee.exe and native Windows programs share. usage: native.sh BUILD
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

wine "$b/bin/bee.exe" --version >/dev/null 2>&1

native_lock() { # as locker.c's arguments
	within 100 wine "$b/test/wine/locker.exe" "$@" | tr -d '\r'
}

# Checks what a native program can lock while bee holds a lock on some bytes.
check_seen() { # name, file, command, first, count, how, then what it tries
	rm -f locked drop dropped end base*
	: >"$2"
	guarded "$g/locker-glibc" "$2" "$3" "$4" "$5" "$6" 2>"$tmp/err" &
	await_file locked
	{
		native_lock "$2" try "$7" "$8" r
		native_lock "$2" try "$7" "$8" w
		: >drop
		await_file dropped
		native_lock "$2" try "$7" "$8" w
	} >"$tmp/got"
	: >end
	wait
	printf '%s\n' "$9" "${10}" free >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_native_first() { # a native program holds the reserved byte
	rm -f locked drop asking base
	: >base
	native_lock base hold 0x40000001 1 w >/dev/null &
	await_file locked
	{
		guarded "$g/locker-glibc" base ask 0x40000001 1 w
		guarded "$g/locker-glibc" base ask 0x40000000 1 w
		guarded "$g/locker-musl" base take 0x40000001 1 w >took &
		await_file asking
		: >drop
		wait
		cat took
	} >"$tmp/got" 2>"$tmp/err"
	{
		echo "getlk taken, setlk taken"
		echo "getlk free, setlk free"
		echo "take 0"
	} >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_kept() { # a lock that cannot become exclusive stays what it was
	rm -f locked drop asking end base
	: >base
	native_lock base hold 0x40000002 510 r >/dev/null &
	native=$!
	await_file locked
	guarded "$g/locker-glibc" base keep 0x40000002 510 w >kept 2>"$tmp/err" &
	await_file asking
	: >drop
	wait $native
	native_lock base try 0x40000002 510 w >"$tmp/got"
	: >end
	wait
	cat kept >>"$tmp/got"
	printf 'locked\nwrite lock taken\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_seen "a native program sees SQLite's reserved lock" \
	base hold 0x40000001 1 w 0x40000001 1 locked locked
check_seen "a native program may share SQLite's shared lock" \
	base hold 0x40000002 510 r 0x40000002 510 free locked
check_seen "a native program sees a lock that became exclusive" \
	base change 0x40000002 510 w 0x40000002 510 locked locked
check_seen "a native program sees what is left of a split lock" \
	base split 0x40000010 17 w 0x40000010 8 locked locked
check_seen "a native program may take the hole of a split lock" \
	base split 0x40000010 17 w 0x40000018 1 free free
check_seen "a native program sees locks of a -shm file" \
	base-shm hold 123 1 w 120 8 locked locked
check_seen "a native program sees a lock after execve" \
	base next 0x40000010 17 w 0x40000010 8 locked locked
check_seen "a native program may take the hole of a lock after execve" \
	base next 0x40000010 17 w 0x40000018 1 free free
check_seen "a native program may lock a file that execve closed" \
	base close 0x40000010 17 w 0x40000010 8 free free
check_seen "bytes that programs transfer are not locked for others" \
	base hold 123 1 w 120 8 free free
check_kept "a lock that a native program shares stays shared"
check_native_first "SQLite's lock of a native program is seen and waited for"
echo "1..$n"
exit "$failed"
