#!/bin/sh
# SPDX-License-Identifier: MIT
# Registers across calls and into threads, also the ways of older CPUs; code
# made at run time; memory that goes away during a call. usage: state.sh BUILD
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
: >"$tmp/in"

fallback() { # name, vector mode, FS mode, program
	name=$1
	vec=$2
	fs=$3
	shift 3
	"$@" >"$tmp/want" 2>/dev/null
	echo "exit $?" >>"$tmp/want"
	# No AVX there: what the program says about ymm is about nothing.
	[ "$vec" = fxsave ] && sed -i 's/^ymm.*/no avx/' "$tmp/want"
	within 60 env BEE_VEC="$vec" BEE_FS="$fs" "$b/bin/bee-guard" \
		"$g/bee-fallback" "$@" >"$tmp/got" 2>"$tmp/err"
	echo "exit $?" >>"$tmp/got"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$name"
}

jit() { # name, how, exit code, word of the message, output
	guarded "$g/jit-glibc" "$2" >"$tmp/got" 2>"$tmp/err"
	echo "exit $?" >>"$tmp/got"
	printf '%bexit %s\n' "$5" "$3" >"$tmp/want"
	if [ -n "$4" ]; then
		grep -q "run-time generated code.*$4" "$tmp/err"
	else
		[ ! -s "$tmp/err" ]
	fi && cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

for libc in glibc musl; do
	same "registers across calls, $libc" "$g/state-$libc"
	for vec in xsavec xsave fxsave; do
		for fs in insn call; do
			fallback "registers, $libc, $vec, fs by $fs" \
				"$vec" "$fs" "$g/state-$libc"
		done
	done
	fallback "threads and signals, $libc, xsave, fs by call" xsave call \
		"$g/work-$libc"
	fallback "threads and signals, $libc, fxsave" fxsave insn \
		"$g/work-$libc"
done

for number in 2 77; do
	guarded "$g/state-musl" $number >"$tmp/got" 2>"$tmp/err"
	echo 0 >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "xgetbv of no register, $number, is 0"
done

for clock in "" insn call; do
	fallback "the clock goes forward, fs by $clock" xsavec "$clock" \
		"$g/clock-glibc"
done

same "run-time code: clean code runs" "$g/jit-glibc" clean
same "run-time code: changed and run again" "$g/jit-glibc" again
no='mprotect: Permission denied\n'
jit "run-time code: a system call is refused" syscall 13 syscall "$no"
jit "run-time code: fs is refused" fs 13 fs: "$no"
jit "run-time code: a hidden system call is refused" hidden 13 syscall "$no"
jit "run-time code: checked each time" late 1 syscall "42\n$no"
guarded "$g/jit-glibc" rwx >"$tmp/got" 2>"$tmp/err"
[ $? -eq 14 ]
result $? "run-time code: writable and executable is refused by mmap"
guarded "$g/jit-glibc" both >"$tmp/got" 2>"$tmp/err"
[ $? -eq 14 ]
result $? "run-time code: writable and executable is refused by mprotect"

code "run-time code: written through another mapping, it does not run" 139 \
	guarded "$g/jit-glibc" alias
says "run-time code: what may run there is named" \
	'shared mapping .* refused (SIGSEGV): only trampolines'

for libc in glibc musl; do
	same "memory that goes away during calls, $libc" "$g/unmap-$libc"
done
code "bee's own fault ends the process" 139 "$b/bin/bee-guard" \
	"$g/bee-fallback" --nonce fa017 "$g/hello-glibc"
grep -q "defect: bee itself failed at pc 0x" "$tmp/err"
result $? "bee's own fault is reported with its address"
code "a system without a thread for a program" 126 env BEE_THREADS=none \
	"$b/bin/bee-guard" "$g/bee-fallback" "$g/hello-glibc"
says "a system without a thread is named" "threads or signals cannot be set up"
echo "1..$n"
exit "$failed"
