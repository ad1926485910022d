#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # sourced; the caller uses g
# For scripts that compare native runs with runs under bee behind the guard;
# sourced with the build folder as $1. Prints TAP; the caller prints the plan.
set -eu
b=$1
g=$b/test/bee
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
set +e # exit codes are what is compared

guarded() {
	within 60 "$b/bin/bee-guard" "$b/bin/bee" "$@"
}

same() { # name, program and arguments; input from $tmp/in
	name=$1
	shift
	"$@" <"$tmp/in" >"$tmp/want" 2>/dev/null
	echo "exit $?" >>"$tmp/want"
	guarded "$@" <"$tmp/in" >"$tmp/got" 2>"$tmp/err"
	echo "exit $?" >>"$tmp/got"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$name"
}

code() { # name, expected exit code, command
	name=$1
	want=$2
	shift 2
	"$@" <"$tmp/in" >"$tmp/got" 2>"$tmp/err"
	got=$?
	echo "exit $got, not $want" >"$tmp/want"
	[ "$got" -eq "$want" ]
	result $? "$name"
}

says() { # name, words of what the last `code` printed
	grep -q -- "$2" "$tmp/err"
	result $? "$1"
}

check_mistakes() { # the message says what is wrong with the name
	: >"$tmp/empty"
	code "a folder is refused" 126 guarded "$tmp"
	says "a folder is named as one" "$tmp: This is a folder"
	code "an empty file is refused" 126 guarded "$tmp/empty"
	says "an empty file is not an ELF file" 'This is not an ELF file'
	code "a name without a path is not found" 127 guarded hello-glibc
	says "a name without a path is refused, as PATH is not searched" \
		'no such program: hello-glibc; .*PATH'
}

# Of the guest `reach` below the root $r: what each verb and name must give.
reach_table() {
	while read -r verb path want && [ -n "$verb" ]; do
		set -- "$@" "$verb" "$path"
		printf '%s %s: %s\n' "$verb" "$path" "$want" >>"$tmp/want"
	done
	guarded --root "${r:?}" "$g/reach-glibc" "$@" >"$tmp/got" 2>"$tmp/err"
}

reaches() { # name; the table is standard input
	: >"$tmp/want"
	reach_table
	cmp -s "$tmp/want" "$tmp/got"
	result $? "$1"
}

# Makes the folder $r, which programs get as their root, and $out beside it.
make_root() {
	: >"$tmp/in"
	out=$tmp/out
	r=$tmp/root
	mkdir -p "$out" "$r/a/b" "$r/etc"
	echo outside >"$out/file"
	echo inside >"$r/a/b/file"
	echo top >"$r/file"
	ln -s "$out/file" "$r/host" # not below the root
	ln -s "$out" "$r/folder"
	ln -s /a/b "$r/mid" # in the middle of a path
	ln -s / "$r/a/all"
	ln -s /loop2 "$r/loop"
	ln -s /loop "$r/loop2"
}
