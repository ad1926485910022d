#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016 # scripts for guests expand there
# What bee is held to on every host; sourced. A host other than Linux then
# defines `guarded`, its way of starting bee behind the guard, anew.
set -eu
# shellcheck source=../../bee/test/lib.sh
. "$(dirname "$0")/../../bee/test/lib.sh"

check_guests() { # programs print and exit as natively
	for libc in glibc pie musl; do
		same "hello, $libc" "$g/hello-$libc"
		same "exit code, $libc" "$g/hello-$libc" 42
		same "threads and signals, $libc" "$g/work-$libc"
		same "faults on small stacks, $libc" "$g/stack-$libc"
		same "a stack overflow, $libc" "$g/stack-$libc" overflow
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
}

check_report() { # proof and report are of this very run
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
}

check_streams() { # inherited files keep their position
	{ echo before; guarded /bin/busybox echo middle 2>"$tmp/err"; echo after; } \
		>"$tmp/got"
	printf 'before\nmiddle\nafter\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "an inherited file goes on where it stood"

	guarded /bin/busybox ash -c 'echo a; echo b >&2; echo c' >"$tmp/got" 2>&1
	printf 'a\nb\nc\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "output and errors share one file"
	check_cwd
	check_shared
	check_sentences
}

check_cwd() { # a directory that is there, by its absolute path
	: >"$tmp/got"
	for dir in /usr / /usr/ /nope usr /etc/passwd; do
		guarded --cwd "$dir" /bin/busybox pwd >>"$tmp/got" 2>"$tmp/err" </dev/null
		echo "$? $(grep -c -- '--cwd names no directory' "$tmp/err")" >>"$tmp/got"
	done
	printf '%s\n' /usr '0 0' / '0 0' /usr '0 0' '126 1' '126 1' '126 1' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "--cwd is where the program starts, or a refusal"
}

check_shared() { # two at once lose no line, and tear none
	(
		guarded "$g/lines-musl" 1 first 2000 &
		guarded "$g/lines-glibc" 1 second 2000 &
		wait
	) >"$tmp/shared" 2>"$tmp/err"
	sort "$tmp/shared" >"$tmp/got"
	{
		seq -f 'first %g' 0 1999
		seq -f 'second %g' 0 1999
	} | sort >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "two programs that share a file lose no line"
}

check_sentences() { # what bee says stays, and so does what comes after
	guarded "$g/lines-musl" 2 error 100 refused 2>"$tmp/all"
	code=$?
	seq -f 'error %g' 0 99 >"$tmp/want"
	grep -v '^bee: ' "$tmp/all" >"$tmp/got"
	[ $code -eq 0 ] && cmp -s "$tmp/want" "$tmp/got" &&
		[ "$(grep -c '^bee: system call ptrace is not ' "$tmp/all")" -eq 1 ]
	result $? "bee's sentences and the program's share standard error"
}

check_load_only() { # a program that is made ready and not run
	guarded --load-only --report "$tmp/report" "$g/hello-musl" 42 \
		>"$tmp/got" 2>"$tmp/err"
	code=$?
	echo "exit $code" >>"$tmp/got"
	grep '^calls' "$tmp/report" >>"$tmp/got"
	printf 'exit 0\ncalls 0\n' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got" && grep -q '^sites_syscall' "$tmp/report"
	result $? "with --load-only the program does not run"
}

check_names() { # each refusal once by name, with the errno besides
	# A machine may well have the 64 GiB that the program asks for.
	guarded --memory 4G "$g/refused-musl" >"$tmp/got" 2>"$tmp/said"
	code=$?
	echo "exit $code" >>"$tmp/got"
	for what in 'call ptrace ' 'call memfd_secret ' 'call fanotify_init ' \
		'call 4321 ' 'fit into 256 GiB' 'more memory refused' 'MAP_HUGETLB' ' rseq '; do
		echo "$what: $(grep -c -- "$what" "$tmp/said")" >>"$tmp/got"
	done
	printf '%s\n' 'exit 0' 'call ptrace : 1' 'call memfd_secret : 1' \
		'call fanotify_init : 1' 'call 4321 : 1' 'fit into 256 GiB: 1' 'more memory refused: 1' \
		'MAP_HUGETLB: 1' ' rseq : 0' >"$tmp/want"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "what is refused is said once, by name"
}

check_list() { # one format on every host
	guarded --list-syscalls >"$tmp/list" 2>"$tmp/err"
	awk -F '\t' '!/^#/ && NF { print $1 "\t" $3 "\t" $4 }' \
		"$(dirname "$0")/../../abi/syscalls.tbl" >"$tmp/want"
	cut -f 1-3 "$tmp/list" | tr -d '\r' >"$tmp/got"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "the list of system calls has one format"
}

check_refusals() { # what bee itself says with its exit code
	code "no such program" 127 guarded "$tmp/none"
	code "not an ELF file" 126 guarded "$0"
	code "a loader that is not there" 126 guarded "$g/hello-lost"
	says "a loader that is not there is named" '/nowhere/ld.so: the program'
	code "wrong option" 2 guarded --nonsense
	code "memory limit below the image" 126 guarded --memory 4K "$g/hello-glibc"
	check_mistakes
	check_load_only
	check_names
	check_list
	code "death by signal" 134 guarded /bin/busybox ash -c 'kill -ABRT $$'
}
