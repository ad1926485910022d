#!/bin/sh
# SPDX-License-Identifier: MIT
# Dynamic programs on Linux: the loader, leaks in libraries, what is refused and
# how. usage: dynamic.sh BUILD
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
d=$b/test/bee/library
seq 1 2000 >"$tmp/in"

# shellcheck disable=SC2317 # `code` calls it
leak() { # kind: as bee/test/leak.c has it
	within 60 env BEE_LEAK="$1" "$b/bin/bee-guard" "$b/test/bee/bee-leak" \
		"$d/open" "$d/part.so"
}

damage() { # byte, value: a library that differs at one place
	cp "$d/part.so" "$tmp/part.so"
	printf '%b' "$2" | dd of="$tmp/part.so" bs=1 seek="$1" conv=notrunc 2>/dev/null
}

for kind in glibc-dynamic glibc-fixed musl-dynamic; do
	same "hello, $kind" "$g/hello-$kind"
	same "exit code, $kind" "$g/hello-$kind" 42
	same "threads and signals, $kind" "$g/work-$kind"
	same "a stack overflow, $kind" "$g/stack-$kind" overflow
done
same "a library is opened and closed" "$d/open" "$d/part.so"
same "a library whose code and data share a segment" "$d/open" "$d/joined.so"
for kind in dynamic fixed; do
	same "numbers that look like addresses of code, $kind" \
		"$g/numbers-glibc-$kind"
done
same "the loader runs as a program" /lib64/ld-linux-x86-64.so.2 \
	"$g/hello-glibc-dynamic" 42
code "execve without a loader" 127 guarded /bin/bash -c '"$0"' "$g/hello-lost"
code "a loader that is none" 126 guarded "$g/hello-noloader"
says "a loader that is none is named" 'load /usr/bin/ldd: This is not an ELF'
code "execve with a loader that is none" 126 guarded /bin/bash -c '"$0"' \
	"$g/hello-noloader"
says "execve with a loader that is none is named" \
	'(ELIBACC): its dynamic loader is not an ELF file'

# Guards hold for libraries.
code "leak: without one the library works" 0 leak none
code "leak: a system call of a library ends the process" 159 leak library-syscall
code "leak: an fs access of a library ends the process" 139 leak library-fs
says "leak: an fs access of a library is reported" \
	"defect: the program accessed the host's fs"
code "leak: sites left in a library are refused" 3 leak library-count
says "leak: the refusal names the library" \
	'text of .*/part.so refused (EACCES): the rewriter left sites unpatched'

# Refused by name; the program gets an error and goes on.
code "a library with a gs: access is not opened" 3 guarded "$d/open" "$d/gs.so"
says "a gs: access is named with its address" \
	'text of .*/gs.so refused (EACCES): .*gs.* (at 0x2[0-9a-f]*)'
code "relocations in text are refused" 3 guarded "$d/open" "$d/textrel.so"
says "relocations in text are named" 'DT_TEXTREL'
damage 124 '\0007' # the flags of the second segment, the text
code "writable text is refused" 3 guarded "$d/open" "$tmp/part.so"
says "writable text is named" 'writable and executable refused'
code "two segments with code are refused" 3 guarded "$d/open" "$d/two.so"
says "two segments with code are named" \
	'text of .*/two.so refused (EACCES): it has several segments with code'

cp "$d/part.so" "$tmp/part.so"
code "a file that changes does not change the text" 0 guarded "$d/open" \
	"$tmp/part.so" change
printf '1\n1 1\n' >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "functions of a library whose file has changed still work"

# Images of libraries, also at another address than when they were made.
cached() { # name, images, images from the cache, command
	name=$1
	echo "images $2 images_cached $3" >"$tmp/want"
	shift 3
	guarded --cache "$tmp/cache" --report "$tmp/report" "$@" >"$tmp/got" \
		2>"$tmp/err"
	echo '1 1 1' | cmp -s - "$tmp/got" && [ ! -s "$tmp/err" ] &&
		grep '^images' "$tmp/report" | xargs >"$tmp/got" &&
		cmp -s "$tmp/want" "$tmp/got"
	result $? "$name"
}
mkdir "$tmp/cache"
cached "images: of the program, its loader and its libraries" 4 0 \
	"$d/open" "$d/part.so"
cached "images: all are used again" 4 4 "$d/open" "$d/part.so"
guarded --cache "$tmp/cache" --report "$tmp/report" --env \
	LD_PRELOAD=libm.so.6 "$d/open" "$d/part.so" >"$tmp/got" 2>"$tmp/err"
# A small library may lie where its stubs do not fit: it is rewritten.
echo '1 1 1' | cmp -s - "$tmp/got" && [ ! -s "$tmp/err" ] &&
	awk '/^images_cached/ { n = $2 } END { exit n < 3 }' "$tmp/report"
result $? "images: at another address too"
[ "$(find "$tmp/cache" -name '*.bee' | wc -l)" -eq 5 ]
result $? "images: one for each file"
for image in "$tmp"/cache/*.bee; do
	printf X | dd of="$image" bs=1 seek=300 conv=notrunc 2>/dev/null
done
guarded --cache "$tmp/cache" "$d/open" "$d/part.so" >"$tmp/got" 2>"$tmp/err"
echo '1 1 1' | cmp -s - "$tmp/got" &&
	[ "$(grep -c 'is rebuilt: the old one is damaged' "$tmp/err")" -eq 4 ]
result $? "images: damaged ones are rebuilt"

# Damaged libraries: an error of dlopen or a signal, never a defect of bee.
bad=0
for at in 16 24 32 40 52 54 56 58 60 62 64 72 80 96 104 112 120 128 136 144 152 \
	160 168 176 184 192 200 208 216 224 232 240 248 264 288 304 320 344 376; do
	for value in '\0000' '\0377\0377\0377\0377\0377\0377\0377\0177' '\0001\0020'; do
		damage $at "$value"
		guarded "$d/open" "$tmp/part.so" >/dev/null 2>"$tmp/err"
		grep -q defect "$tmp/err" && bad=$((bad + 1))
	done
done
echo "$bad libraries" >"$tmp/got"
[ $bad -eq 0 ]
result $? "no damaged library makes bee itself fail"
echo "1..$n"
exit "$failed"
