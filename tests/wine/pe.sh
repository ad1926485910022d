#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the PE headers and sections of bee.exe or skep.exe.
# usage: pe.sh EXE ALLOWED fixed|moves
# shellcheck disable=SC2317 # the checks are called through try
set -eu
exe=$1
allowed=$2
base=$3
dump=x86_64-w64-mingw32-objdump
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"

try() { # name, command: its output is the reason
	name=$1
	shift
	code=0
	"$@" >"$tmp/why" 2>&1 || code=$?
	result "$code" "$name"
}

little() { # offset bytes: a number from the file
	od -An -v -tu1 -j "$1" -N "$2" "$exe" |
		awk '{ for (i = NF; i; i--) v = v * 256 + $i; print v }'
}

# name rva virtual-size raw-size raw-offset flags, one section per line
sections() {
	pe=$(little 60 4)
	count=$(little $((pe + 6)) 2)
	at=$((pe + 24 + $(little $((pe + 20)) 2)))
	while [ "$count" -gt 0 ]; do
		name=$(dd if="$exe" bs=1 skip="$at" count=8 2>/dev/null |
			tr -d '\000')
		echo "$name $(little $((at + 12)) 4) $(little $((at + 8)) 4)" \
			"$(little $((at + 16)) 4) $(little $((at + 20)) 4)" \
			"$(little $((at + 36)) 4)"
		at=$((at + 40))
		count=$((count - 1))
	done
}

imports() {
	$dump -p "$exe" | awk '/DLL Name:/ { dll = tolower($3) }
		/^\t[0-9a-f]+\t/ { print dll, $3 }' | LC_ALL=C sort -u
}

documented() {
	imports >"$tmp/have"
	[ -s "$tmp/have" ] || return 1
	grep -v '^#' "$allowed" | LC_ALL=C sort -u >"$tmp/allowed"
	LC_ALL=C comm -23 "$tmp/have" "$tmp/allowed" >"$tmp/extra"
	sed 's/^/not on the list: /' "$tmp/extra"
	[ ! -s "$tmp/extra" ]
}

# 0x20000000 execute, 0x80000000 write
never_both() {
	awk '{ w = int($6 / 2147483648) % 2; x = int($6 / 536870912) % 2 }
		w && x { print $1, "is writable and executable"; bad = 1 }
		END { exit bad }' "$tmp/sections"
}

# 0x40000080: readable, uninitialised; no bytes; 0x400000 to 0x60000000
guest_section() {
	cat "$tmp/sections"
	grep -q '^\.guest 65536 1606418432 0 0 1073741952$' "$tmp/sections"
}

fixed_base() {
	$dump -p "$exe" | grep -E 'ImageBase|relocations stripped|DllChar'
	$dump -p "$exe" | grep -q 'ImageBase.*00000000003f0000' &&
		$dump -p "$exe" | grep -q 'relocations stripped' &&
		! $dump -p "$exe" | grep -q DYNAMIC_BASE
}

moving_base() {
	$dump -p "$exe" | grep -q DYNAMIC_BASE &&
		$dump -p "$exe" | grep -q HIGH_ENTROPY_VA &&
		grep -q '^\.reloc ' "$tmp/sections"
}

holds() { # text in the resources, as UTF-8 or UTF-16
	tr -d '\000' <"$exe" | grep -aqF "$1"
}

version_info() {
	holds VS_VERSION_INFO && holds FileDescription && holds ProductVersion
}

no_debug() {
	! $dump -h "$exe" | grep -E '\.debug|\.stab'
}

sections >"$tmp/sections"
try "imports are on the list of documented ones" documented
try "no section is writable and executable" never_both
if [ "$base" = fixed ]; then
	try "the guest's range is a read-only section without bytes" guest_section
	try "the base is fixed and there are no relocations" fixed_base
else
	try "the base moves in 64 bits" moving_base
fi
try "no debug sections below the image" no_debug
try "manifest asks for long paths" holds '<longPathAware'
try "manifest asks for UTF-8" holds 'UTF-8</activeCodePage>'
try "manifest names Windows 10" holds '8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a'
try "manifest asks for no more rights" holds 'level="asInvoker"'
try "version data is there" version_info
echo "1..$n"
exit "$failed"
