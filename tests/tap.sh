#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # sourced; callers use what it sets
# TAP for scripts, sourced. $tmp is a folder that is removed at the end. `result
# CODE NAME` prints one line of TAP and, for a failure, the files want, got, err
# and why of $tmp. The caller ends with its plan: echo "1..$n".
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0
failed=0

# Prints the seconds that correspond, at the present load, to seconds of an idle
# computer, as internal/load does. With fixed limits, tests would fail on a busy
# computer.
stretch() { # seconds
	awk -v s="$1" -v n="$(nproc)" '{
		split($4, running, "/")
		f = ($1 > running[1] ? $1 : running[1]) / n
		print s * (f < 1 ? 1 : f > 40 ? 40 : f)
	}' "${LOADAVG:-/proc/loadavg}"
}

# Kills a command at such a time limit.
within() { # seconds command
	seconds=$(stretch "$1")
	shift
	timeout -k 10 "$seconds" "$@"
}

result() { # code name
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		failed=1
		echo "not ok $n - $2"
		for f in want got err why; do
			head -n 20 "$tmp/$f" 2>/dev/null | sed "s/^/# $f: /"
		done
	fi
}

# Passes if a file, a list of errors, is empty.
judge() { # file name
	code=0
	cp "$1" "$tmp/got"
	test ! -s "$1" || code=1
	result $code "$2"
}
