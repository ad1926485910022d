#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs that lock files against each other; sourced, in the directory of
# the files. Each function takes how its programs run.
set -eu
# shellcheck source=../../bee/test/lib.sh
. "$(dirname "$0")/../../bee/test/lib.sh"

await_file() {
	tries=0
	while [ ! -e "$1" ] && [ $tries -lt 600 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
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
	await_file holding
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

check_pass() { # name, who holds and goes on living, who waits
	rm -f held holding die waiting taken
	"$2" "$g/holder-glibc" pass 2>"$tmp/err" &
	holder=$!
	await_file holding
	"$3" "$g/holder-musl" wait &
	waiter=$!
	await_file waiting
	: >die
	wait "$holder"
	echo "holder $?" >"$tmp/got"
	wait "$waiter"
	echo "waiter $?" >>"$tmp/got"
	printf 'holder 0\nwaiter 0\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_stat() { # name, who looks
	rm -f held holding die seen gone
	printf 123 >held
	chmod 644 held
	touch -d @1000000000 held
	"$2" "$g/holder-musl" look >"$tmp/got" 2>"$tmp/err" &
	looker=$!
	await_file holding
	printf 45 >>held
	touch -d @1100000000 held
	chmod 444 held
	: >die
	await_file seen
	rm -f held
	: >gone
	wait "$looker"
	{
		echo "3 bytes, mode 200, time 1000000000"
		echo "5 bytes, mode 0, time 1100000000"
		echo gone
	} >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

check_mapped() { # name, who maps, who maps and changes the file's length
	rm -f mapped
	head -c 81920 /dev/zero >mapped
	"$2" "$g/mapper-glibc" one 100 >out.1 2>"$tmp/err" &
	"$3" "$g/mapper-musl" two 100 >out.2 2>"$tmp/err2"
	wait
	cat "$tmp/err2" >>"$tmp/err"
	cat out.1 out.2 >"$tmp/got"
	{
		printf 'behind the end: 1\ncut off: 1\none done\n'
		printf 'shorter: 1\ntwo done\n'
	} >"$tmp/want"
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
