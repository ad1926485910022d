#!/bin/sh
# SPDX-License-Identifier: MIT
# libo2g shows what o2g.h declares and nothing else, and needs libc alone:
# exports.sh BUILD
set -eu

build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

grep -oE '\bo2g_[a-z_]+\(' o2g/lib/o2g.h | tr -d '(' | sort -u \
	>"$folder/mentioned"
nm -D --defined-only "$build/lib/libo2g.so" | awk '{print $3}' | sort \
	>"$folder/shown"
# The header's comments mention some that the paper had.
printf '%s\n' o2g_put_entry o2g_set_dump_area o2g_start_dumper_thread \
	>"$folder/gone"
grep -vxFf "$folder/gone" "$folder/mentioned" >"$folder/declared"

number=0
judge() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number - $2"
	else
		echo "not ok $number - $2"
	fi
}
diff "$folder/declared" "$folder/shown" | sed 's/^/# /'
cmp -s "$folder/declared" "$folder/shown" && r=0 || r=1
judge "$r" "libo2g.so exports the functions of o2g.h alone"

readelf -d "$build/lib/libo2g.so" | grep NEEDED |
	grep -vE 'libc\.so|ld-linux' && r=1 || r=0
judge "$r" "libo2g.so needs no library but libc"
readelf -d "$build/lib/libo2g.so" |
	grep -q 'soname: \[libo2g.so.0\]' && r=0 || r=1
judge "$r" "libo2g.so has a soname with its version"

echo 'int o2g_probe(void); int o2g_probe(void) { return 0; }' \
	>"$folder/user.c"
cc -fPIC -shared -o "$folder/user.so" "$folder/user.c" \
	-Wl,--whole-archive "$build/lib/libo2g.a" -Wl,--no-whole-archive \
	-Wl,--exclude-libs,ALL -pthread >&2
[ "$(nm -D --defined-only "$folder/user.so" | awk '{print $3}')" = o2g_probe ] &&
	r=0 || r=1
judge "$r" "a shared object with libo2g.a exports none of its symbols"
echo "1..$number"
