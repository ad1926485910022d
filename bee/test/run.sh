#!/bin/sh
# SPDX-License-Identifier: MIT
# Each guest runs natively and under bee behind the guard; output and exit code
# must be the same. usage: run.sh BUILD
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
# shellcheck source=bee/test/guests.sh
. "$(dirname "$0")/guests.sh"
export BEE_TEST_NAME=nobody

seq 1 2000 >"$tmp/in"
check_guests
if [ -x /bin/busybox ]; then
	same "busybox ls /etc/passwd" /bin/busybox ls /etc/passwd
fi
if [ -x /bin/bash-static ]; then
	same "bash" /bin/bash-static -c \
		'declare -A m; for i in {1..50}; do m[$i]=$((i*i)); done; echo ${m[7]}; exit 4'
fi

check_report
check_streams
check_refusals
code "help on a full disk is a failure" 1 sh -c '"$0" --help >/dev/full' \
	"$b/bin/bee"
code "a probe on a full disk is a failure" 1 sh -c '"$0" --probe >/dev/full' \
	"$b/bin/bee"
code "leak: a system call that was missed dies" 159 env BEE_LEAK=syscall \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-musl"
code "leak: an fs access that was missed dies" 139 env BEE_LEAK=fs \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-glibc"
code "leak: a site found and not patched is refused" 126 env BEE_LEAK=count \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-musl"
grep -q 'the rewriter left sites unpatched' "$tmp/err"
result $? "leak: the refusal says that sites were left"
code "leak: nothing missed runs" 7 "$b/bin/bee-guard" "$g/bee-leak" \
	"$g/hello-musl"
echo "1..$n"
exit "$failed"
