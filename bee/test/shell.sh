#!/bin/sh
# SPDX-License-Identifier: MIT
# Lines of shell.txt, each run by Debian's busybox natively and under bee behind
# the guard: pipelines, substitutions, traps, background jobs, subshells. Every
# command is busybox again, by a link in PATH. A line that ends with <<E reads
# three lines more. usage: shell.sh BUILD
set -eu
# shellcheck source=bee/test/lib.sh
. "$(dirname "$0")/lib.sh"
b=$(realpath "$b")
busybox=/bin/busybox

if [ ! -x $busybox ]; then
	echo "ok 1 - scripts of a shell # SKIP no $busybox"
	echo "1..1"
	exit 0
fi
mkdir "$tmp/bin"
# What `within` makes of 60 seconds; PATH has no awk for it later. Its timeout
# would be busybox's, which leaves a process behind for a second.
timeout=$(command -v timeout)
limit=$(awk -v n="$(nproc)" '{
	f = $1 / n
	print 60 * (f < 1 ? 1 : f > 40 ? 40 : f)
}' /proc/loadavg)
for applet in $($busybox --list); do
	ln -s $busybox "$tmp/bin/$applet"
done

run_line() { # output, error, command: in a fresh folder
	out=$1
	err=$2
	shift 2
	rm -rf "$tmp/work"
	mkdir -p "$tmp/work/sub"
	(
		cd "$tmp/work" || exit
		echo one >f1
		echo 3 >f3
		echo x >sub/leaf
		PATH=$tmp/bin "$@" $busybox sh -c "$text" </dev/null >"$out" 2>"$err"
		echo "exit $?" >>"$out"
	)
}

grep -v "^# " "$(dirname "$0")/shell.txt" >"$tmp/lines"
while IFS= read -r line; do
	text=$line
	case $line in
	*'<<E'*) text=$(printf '%s\ntwo words\none line\ntwo words\nE' "$line") ;;
	esac
	run_line "$tmp/want" "$tmp/why" env
	run_line "$tmp/got" "$tmp/err" "$timeout" -k 10 "$limit" \
		"$b/bin/bee-guard" "$b/bin/bee"
	cmp -s "$tmp/want" "$tmp/got"
	result $? "a shell runs: $(printf '%s' "$line" | tr '#\134' '__')"
done <"$tmp/lines"

# Only processes of the run: natively there are more.
# shellcheck disable=SC2016
text='set -- /proc/[0-9]*; echo $# ${1#/proc/} $$'
run_line "$tmp/got" "$tmp/err" "$timeout" -k 10 "$limit" "$b/bin/bee-guard" "$b/bin/bee"
read -r count first self <"$tmp/got"
[ "$count" = 1 ] && [ "$first" = "$self" ]
result $? "/proc lists the processes of the run alone"

# A thread may be kicked just when it executes a program, as a shell does last, after it
# waited for others.
text='for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8 9 10; do
	sh -c "{ echo a; echo b >&2; } 2> err | cat; cat err" || echo ended; done; done'
run_line "$tmp/got" "$tmp/err" "$timeout" -k 10 "$limit" "$b/bin/bee-guard" "$b/bin/bee"
[ "$(grep -c '^[ab]$' "$tmp/got")" = 160 ] && ! grep -q ended "$tmp/got"
result $? "a program that is executed after a fork is not ended by bee's own signal"
echo "1..$n"
exit "$failed"
