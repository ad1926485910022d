#!/bin/sh
# SPDX-License-Identifier: MIT
# bee.exe under Wine and the guard. Each guest also runs natively; output and
# exit code must be the same. usage: bee.sh BUILD
# shellcheck disable=SC2016 # scripts for guests expand there
set -eu
export BEE_TEST_NAME=nobody
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
# shellcheck source=../../bee/test/guests.sh
. "$(dirname "$0")/../../bee/test/guests.sh"
wine_begin "$1" wine

exe() { # bee's or bee-leak's path, then its arguments
	within 60 "$b/bin/bee-guard" wine "$@"
}

guarded() {
	exe "$b/bin/bee.exe" "$@"
}

seq 1 2000 >"$tmp/in"
# The first program that runs creates the prefix, and Wine prints messages.
wine "$b/bin/bee.exe" --version >/dev/null 2>&1

check_guests

guarded /bin/busybox cat <"$tmp/in" 2>"$tmp/err" | cat >"$tmp/got"
cp "$tmp/in" "$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "bytes through pipes on both sides"

check_report
check_streams
check_refusals
"$g/work-musl" >"$tmp/want"
guarded --no-debugger "$g/work-musl" >"$tmp/got" 2>"$tmp/err"
cmp -s "$tmp/want" "$tmp/got"
result $? "no debugger: threads and signals"
code "no debugger: a stack overflow ends the program" 134 \
	guarded --no-debugger "$g/stack-musl" overflow
grep -q 'its stack had no space for a fault' "$tmp/err"
result $? "no debugger: a stack overflow is reported"
mkdir "$tmp/cache"
guarded --cache "Z:$tmp/cache" "$g/hello-musl" >/dev/null 2>&1
if [ "$(id -u)" -eq 0 ]; then
	chown 65534 "$tmp"/cache/*
	guarded --cache "Z:$tmp/cache" "$g/hello-musl" >"$tmp/got" 2>"$tmp/err"
	grep -q 'old one is owned by another user' "$tmp/err"
	result $? "a cached image of another user is not run"
fi
same "clocks" "$g/clock-glibc"
guarded /bin/busybox uname -n >"$tmp/got" 2>"$tmp/err"
uname -n | sed 's/[.].*//' >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "the host's name is that of the network"
code "a device of Wine's host is refused" 1 \
	guarded /bin/busybox head -c1 /dev/ptmx
grep -q 'open of /dev/ptmx is refused' "$tmp/err"
result $? "a device of Wine's host is named"
code "mkfifo is refused" 1 guarded /bin/busybox mkfifo "$tmp/fifo"
grep -q 'mkfifo refused (EPERM)' "$tmp/err"
result $? "mkfifo is refused by name"
code "a probe reports no fault" 0 guarded --probe

# fork while no child can be started, and again when one can.
await() { # a file in the folder of the test
	while [ ! -e "$tmp/denied/$1" ]; do sleep 0.1; done
}
put() { # what stands in the place of bee.exe from now on
	cp "$1" "$tmp/denied/new"
	mv "$tmp/denied/new" "$tmp/denied/bee.exe"
}
mkdir "$tmp/denied"
put "$b/bin/bee.exe"
{
	await started
	put "$b/test/wine/stuck.exe"
	: >"$tmp/denied/replaced"
	await denied
	put "$b/bin/bee.exe"
	: >"$tmp/denied/restored"
} &
helper=$!
exe "$tmp/denied/bee.exe" "$g/denied-musl" "$tmp/denied" \
	>"$tmp/got" 2>"$tmp/err" || true
kill "$helper" 2>/dev/null || true
grep -q '^another thread works while a child starts: 0$' "$tmp/got"
result $? "fork: other threads go on while a child starts"
grep -q '^fork: -1, Resource temporarily unavailable$' "$tmp/got"
result $? "fork: a child that does not start is EAGAIN"
grep -q 'fork refused (EAGAIN): no process could be started' "$tmp/err"
result $? "fork: a child that does not start is named"
grep -q '^fork: the child ends with 7$' "$tmp/got"
result $? "fork: the next one works"
code "leak: without a leak the program runs" 7 exe "$g/bee-leak.exe" "$g/hello-musl"
code "leak: a missed system call ends the process" 134 within 60 env \
	BEE_LEAK=syscall "$b/bin/bee-guard" wine "$g/bee-leak.exe" "$g/hello-musl"
grep -q 'died unexpectedly' "$tmp/err"
result $? "leak: the parent reports the death"
code "leak: a site found and not patched is refused" 126 within 60 env \
	BEE_LEAK=count "$b/bin/bee-guard" wine "$g/bee-leak.exe" "$g/hello-musl"
grep -q 'the rewriter left sites unpatched' "$tmp/err"
result $? "leak: the refusal says that sites were left"
echo "1..$n"
exit "$failed"
