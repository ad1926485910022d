#!/bin/sh
# SPDX-License-Identifier: MIT
# TAP: libabi.a needs nothing from outside, for each compiler. A call to a
# libc function there would run vector code over the guest's registers.
# usage: symbols.sh LIB_DIR MINGW_NM
set -eu

n=0
bad=0
check() {
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
		bad=1
	fi
}

for tc in gcc clang mingw; do
	nm="nm"
	[ "$tc" != mingw ] || nm=$2
	# The linker itself makes the first; the second probes the guard page of
	# a Windows stack and touches no vector register.
	check "libabi for $tc has no undefined symbol" "$(
		"$nm" -u "$1/$tc/abi.o" |
			grep -v -e ' _GLOBAL_OFFSET_TABLE_$' \
				-e ' ___chkstk_ms$' || :)"
	check "libabi for $tc has abi_syscall and no memcpy of its own" "$(
		"$nm" "$1/$tc/abi.o" | grep -E ' (memcpy|memset|memmove|memcmp)$' || :
		"$nm" "$1/$tc/abi.o" | grep -q ' T abi_syscall$' ||
			echo 'abi_syscall is missing')"
	check "libabi for $tc uses no vector register" "$(
		objdump -d --no-show-raw-insn "$1/$tc/abi.o" |
			grep -E '%[xyz]mm[0-9]|%mm[0-7]|%st\b' | head -3)"
done
echo "1..$n"
exit "$bad"
