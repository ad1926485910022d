#!/bin/sh
# SPDX-License-Identifier: MIT
# bee.exe under Wine behind the guard: each guest runs natively too, and output
# and exit code must be the same. usage: bee.sh BUILD
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
WINEPREFIX=${WINEPREFIX:-$(pwd)/$1/wine}
WINEDEBUG=-all
LC_ALL=C.UTF-8
BEE_TEST_NAME=nobody
export WINEPREFIX WINEDEBUG LC_ALL BEE_TEST_NAME
unset DISPLAY
# shellcheck source=../../bee/test/lib.sh
. "$(dirname "$0")/../../bee/test/lib.sh"

exe() { # bee's or bee-leak's path, then its arguments
	timeout 60 "$b/bin/bee-guard" wine "$@"
}

guarded() {
	exe "$b/bin/bee.exe" "$@"
}

if ! command -v wine >/dev/null 2>&1; then
	echo "Bail out! no wine here; run: make setup"
	exit 1
fi
seq 1 2000 >"$tmp/in"
# A new prefix is made by whatever runs first, and says so.
wine "$b/bin/bee.exe" --version >/dev/null 2>&1

for libc in glibc pie musl; do
	same "hello, $libc" "$g/hello-$libc"
	same "exit code, $libc" "$g/hello-$libc" 42
	same "threads and signals, $libc" "$g/work-$libc"
done
same "go" "$g/gowork"
if [ -x /bin/busybox ]; then
	for applet in "echo a b" cat "uname -s" sha256sum wc "expr 6 * 7" \
		"awk {s+=\$1}END{print(s)}" "seq 3 9" "sort -rn" "head -n 3" \
		"cat /etc/passwd" "stat -c %s /etc/passwd"; do
		set -f
		# shellcheck disable=SC2086
		same "busybox $applet" /bin/busybox $applet
		set +f
	done
	same "busybox ash" /bin/busybox ash -c \
		'i=0; while [ $i -lt 100 ]; do i=$((i+1)); done; echo $i; exit 9'
fi

guarded /bin/busybox cat <"$tmp/in" 2>"$tmp/err" | cat >"$tmp/got"
cp "$tmp/in" "$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "bytes through pipes on both sides"

guarded --nonce 1234abcd --report "$tmp/report" "$g/proof-musl" \
	>"$tmp/got" 2>"$tmp/err"
echo bee 000000001234abcd >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "proof number answers the nonce"
digest=$(sha256sum "$g/proof-musl" | cut -d' ' -f1)
grep -q "^sha256_file $digest\$" "$tmp/report" &&
	grep -q "^nonce 000000001234abcd\$" "$tmp/report" &&
	awk '/^sites_/ && $2 != $3 { exit 1 }
	     /^calls/ && $2 < 2 { exit 1 }' "$tmp/report"
result $? "report holds nonce, digest, calls and sites"

{ echo before; guarded /bin/busybox echo middle 2>"$tmp/err"; echo after; } \
	>"$tmp/got"
printf 'before\nmiddle\nafter\n' >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "an inherited file goes on where it stood"

guarded /bin/busybox ash -c 'echo a; echo b >&2; echo c' >"$tmp/got" 2>&1
printf 'a\nb\nc\n' >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "output and errors share one file"

code "no such program" 127 guarded "$tmp/none"
code "not an ELF file" 126 guarded "$0"
code "dynamic program is refused" 126 guarded /bin/true
code "wrong option" 2 guarded --nonsense
code "memory limit below the image" 126 guarded --memory 4K "$g/hello-glibc"
code "death by signal" 134 guarded /bin/busybox ash -c 'kill -ABRT $$'
code "probe finds nothing bad" 0 guarded --probe
code "leak: nothing missed runs" 7 exe "$g/bee-leak.exe" "$g/hello-musl"
code "leak: a system call that was missed dies" 134 env BEE_LEAK=syscall \
	timeout 60 "$b/bin/bee-guard" wine "$g/bee-leak.exe" "$g/hello-musl"
grep -q 'died without ending itself' "$tmp/err"
result $? "leak: the parent reports the death"
echo "1..$n"
exit "$failed"
