#!/bin/sh
# SPDX-License-Identifier: MIT
# Each guest runs natively and under bee behind the guard; output and exit code
# must be the same. usage: run.sh BUILD
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
export BEE_TEST_NAME=nobody

seq 1 2000 >"$tmp/in"
for libc in glibc pie musl; do
	same "hello, $libc" "$g/hello-$libc"
	same "exit code, $libc" "$g/hello-$libc" 42
	same "threads and signals, $libc" "$g/work-$libc"
done
same "go" "$g/gowork"

if [ -x /bin/busybox ]; then
	for applet in "echo a b" cat "uname -s" sha256sum "awk {s+=\$1}END{print(s)}" \
		"seq 3 9" wc "expr 6 * 7" "sort -rn" "head -n 3" "ls /etc/passwd" \
		"cat /etc/passwd" "stat -c %s /etc/passwd"; do
		set -f
		# shellcheck disable=SC2086
		same "busybox $applet" /bin/busybox $applet
		set +f
	done
	same "busybox ash" /bin/busybox ash -c \
		'i=0; while [ $i -lt 100 ]; do i=$((i+1)); done; echo $i; exit 9'
fi
if [ -x /bin/bash-static ]; then
	same "bash" /bin/bash-static -c \
		'declare -A m; for i in {1..50}; do m[$i]=$((i*i)); done; echo ${m[7]}; exit 4'
fi

got=$(guarded --nonce 1234abcd --report "$tmp/report" "$g/proof-musl")
echo "$got" >"$tmp/got"
echo bee 000000001234abcd >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "proof number answers the nonce"
digest=$(sha256sum "$g/proof-musl" | cut -d' ' -f1)
grep -q "^sha256_file $digest\$" "$tmp/report" &&
	grep -q "^nonce 000000001234abcd\$" "$tmp/report" &&
	awk '/^sites_/ && $2 != $3 { exit 1 }
	     /^calls/ && $2 < 2 { exit 1 }' "$tmp/report"
result $? "report holds nonce, digest, calls and sites"

{ echo before; guarded /bin/busybox echo middle; echo after; } >"$tmp/got"
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
code "leak: a system call that was missed dies" 159 env BEE_LEAK=syscall \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-musl"
code "leak: an fs access that was missed dies" 139 env BEE_LEAK=fs \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-glibc"
code "leak: nothing missed runs" 7 "$b/bin/bee-guard" "$g/bee-leak" \
	"$g/hello-musl"
echo "1..$n"
exit "$failed"
