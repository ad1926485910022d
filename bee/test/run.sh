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

same "more sections of code than bee keeps edges of" "$g/many-musl"
for kind in glibc pie relr; do
	same "numbers that look like addresses of code, $kind" "$g/numbers-$kind"
done

check_family() { # what a child is held to as well
	for libc in glibc pie musl; do
		same "processes and their signals, $libc" "$g/family-$libc"
	done
	printf '\177ELF\1' >"$tmp/small"
	chmod +x "$tmp/small"
	code "execve of a 32-bit program is refused" 126 guarded /bin/busybox \
		ash -c '"$0"; exit $?' "$tmp/small"
	says "execve of a 32-bit program is refused by name" \
		'execve of .*/small refused (ELIBACC): This is a 32-bit'
	guarded --nonce 77 /bin/busybox ash -c '"$0" && (exec "$0")' \
		"$g/proof-musl" >"$tmp/got" 2>"$tmp/err"
	printf 'bee 0000000000000077\n%.0s' 1 2 >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "a program started by another one is proved too"
	code "a process of another run is not there" 1 guarded /bin/busybox \
		ash -c 'kill -0 "$0"' $(($$ + 0x400000))
	guarded /bin/busybox ash -c 'echo a >"$0"; exec 2>&-; exec 2>>"$0"
		"$1"; echo b >>"$0"' "$tmp/got" "$tmp/small" >"$tmp/err" 2>&1
	printf 'a\nb\n' >"$tmp/want"
	grep -v '^bee: execve of ' "$tmp/got" | grep -v 'small: ' |
		cmp -s "$tmp/want" -
	result $? "a program that changes its standard error loses no line"
}

check_trace() { # the call, its first three arguments and its result
	guarded --trace "$g/hello-musl" 42 >"$tmp/got" 2>"$tmp/err"
	sed -n -e 's/^bee: trace 0 exit_group(0x2a, .*/exit_group(0x2a, )/p' \
		-e 's/^bee: trace 0 \(write\|writev\)(0x1, 0x[0-9a-f]*, 0x[0-9a-f]*)$/write(0x1, , )/p' \
		"$tmp/err" | uniq >"$tmp/got"
	printf '%s\n' 'write(0x1, , )' 'exit_group(0x2a, )' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "a trace has each call with its arguments"
}

# Numbers from 3 on; bee itself uses the first ones.
check_inherited() {
	script='read x <&4; echo "$x" >&3; cat <&5; ls /proc/self/fd; cat /dev/fd/0
		readlink /proc/self/fd/0; echo end >&7; cat <&9'
	echo four >"$tmp/four"
	echo nine >"$tmp/nine"
	for by in "" guarded; do
		echo piped | (
			exec 5<&0
			$by /bin/busybox ash -c "$script" <"$tmp/four" \
				3>&1 4<"$tmp/four" 7>>"$tmp/end" 9<"$tmp/nine"
		) >"$tmp/got$by" 2>"$tmp/err"
	done
	cmp -s "$tmp/got" "$tmp/gotguarded" && [ "$(wc -l <"$tmp/got")" -gt 10 ] &&
		[ "$(sort "$tmp/end" | uniq -c | tr -s ' ')" = ' 2 end' ]
	result $? "a program has the descriptors that bee was started with"
	mkfifo "$tmp/hold" "$tmp/go"
	(exec "$b/bin/bee" /bin/busybox ash -c 'exec 8>&-; read x <"$0"' \
		"$tmp/hold" 8>"$tmp/go") 2>"$tmp/err" &
	within 10 cat "$tmp/go" >"$tmp/got"
	result $? "a pipe ends when the program closes its inherited end"
	echo >"$tmp/hold"
	mkdir "$tmp/folder"
	: >"$tmp/folder/a"
	guarded /usr/bin/python3 -SEc 'import os; print(os.listdir(6))' \
		6<"$tmp/folder" >"$tmp/got" 2>"$tmp/err"
	echo "['a']" >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "an inherited folder can be listed"
	guarded --root "$tmp/folder" /bin/busybox true 6<"$tmp" >"$tmp/got" \
		2>"$tmp/err"
	says "an inherited folder outside of the root is named" \
		'inherited descriptor 6 is closed: .* outside of the root'
	code "too many descriptors to start a program" 126 sh -c \
		'ulimit -n 12; exec "$0" "$1" 9</dev/null' \
		"$b/bin/bee" "$g/hello-musl"
	says "the limit is named" "too many open descriptors .* ulimit -n"
	python3 -SEc 'import os, sys
os.dup2(os.eventfd(0), 7)
os.execv(sys.argv[1], sys.argv[1:])' "$b/bin/bee" /bin/busybox true 2>"$tmp/err"
	says "an inherited eventfd is named" \
		'inherited descriptor 7 is closed: it is no file'
}

check_report
check_trace
check_inherited
check_family
check_streams
check_refusals
code "help on a full disk is a failure" 1 sh -c '"$0" --help >/dev/full' \
	"$b/bin/bee"
says "a full disk is named" "standard output can't be written"
code "a probe on a full disk is a failure" 1 sh -c '"$0" --probe >/dev/full' \
	"$b/bin/bee"
code "a stack overflow ends the program" 139 "$b/bin/bee" "$g/stack-musl" x
says "the signal that ended a program is reported" "was ended by signal 11"
code "too few addresses for a program" 126 sh -c \
	'ulimit -v 100000000; exec "$0" "$1"' "$b/bin/bee" "$g/hello-musl"
says "too few addresses are named" "address range of guests is not free"
"$b/bin/bee" --probe | awk '$1 == "memory" && $3 == "MiB" { print $2 }' >"$tmp/got"
awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo >"$tmp/want"
cmp -s "$tmp/want" "$tmp/got"
result $? "a probe prints the machine's memory"
code "leak: a missed system call ends the process" 159 env BEE_LEAK=syscall \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-musl"
code "leak: a missed fs access ends the process" 139 env BEE_LEAK=fs \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-glibc"
says "leak: a missed fs access is reported" \
	"defect: the program accessed the host's fs"
code "leak: a site found and not patched is refused" 126 env BEE_LEAK=count \
	"$b/bin/bee-guard" "$g/bee-leak" "$g/hello-musl"
grep -q 'the rewriter left sites unpatched' "$tmp/err"
result $? "leak: the refusal says that sites were left"
code "leak: without a leak the program runs" 7 "$b/bin/bee-guard" "$g/bee-leak" \
	"$g/hello-musl"
echo "1..$n"
exit "$failed"
