#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes dispatch tables from syscalls.tbl: gen-syscalls.sh TABLE OUT_DIR
#
#   sys.h      a prototype for each handler
#   calls.inc  [number] = { handler, name, route, arguments }, x86-64
#   numbers.h  ABI_NR_<name>, and ABI_NR32_<name> for i386
set -eu

table=$1
out=$2
mkdir -p "$out"

# Writes a file only when its text changed, so that nothing is rebuilt in vain.
keep() {
	if cmp -s "$out/$1.new" "$out/$1"; then
		rm "$out/$1.new"
	else
		mv "$out/$1.new" "$out/$1"
	fi
}

awk -F '\t' '
/^#/ || NF == 0 { next }
NF != 5 { print FILENAME ":" FNR ": five fields wanted"; bad = 1 }
$1 !~ /^[0-9]+$/ || $1 >= 512 { print FILENAME ":" FNR ": number"; bad = 1 }
$2 !~ /^([0-9]+|-)$/ { print FILENAME ":" FNR ": i386 number"; bad = 1 }
$4 !~ /^(core|host|refused|probed)$/ { print FILENAME ":" FNR ": route"; bad = 1 }
seen[$1]++ || named[$3]++ { print FILENAME ":" FNR ": twice"; bad = 1 }
$5 != "-" && $5 != "none" && split($5, args, ",") > 6 {
	print FILENAME ":" FNR ": arguments"; bad = 1
}
END { exit bad }' "$table" >&2

awk -F '\t' '
BEGIN { print "/* SPDX-License-Identifier: MIT */"
	print "/* Made from syscalls.tbl. Included by call.h. */" }
/^#/ { next }
$4 != "refused" && $4 != "probed" { print "s64 abi_sys_" $3 "(struct abi_call *c);" }
' "$table" > "$out/sys.h.new"
keep sys.h

awk -F '\t' '
BEGIN { print "/* SPDX-License-Identifier: MIT */" }
/^#/ { next }
{
	handler = $4 == "refused" || $4 == "probed" ? "0" : "abi_sys_" $3
	args = $5 == "none" ? "" : $5
	printf "[%d] = { %s, \"%s\", \"%s\", \"%s\" },\n",
		$1, handler, $3, $4, args
}' "$table" > "$out/calls.inc.new"
keep calls.inc

awk -F '\t' '
BEGIN { print "/* SPDX-License-Identifier: MIT */"
	print "#ifndef ABI_GEN_NUMBERS_H\n#define ABI_GEN_NUMBERS_H\n" }
/^#/ { next }
{ print "#define ABI_NR_" $3 " " $1 }
$2 != "-" { print "#define ABI_NR32_" $3 " " $2 }
END { print "\n#endif" }' "$table" > "$out/numbers.h.new"
keep numbers.h
