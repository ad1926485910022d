#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034,SC2238 # sourced; `in`, `got` and `dd` are files
# For scripts that save programs; sourced with the build folder as $1, in the
# folder of the test. Guests wait until the file `go` exists.
set -eu
b=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
set -- "$b"
# shellcheck source=bee/test/lib.sh
. "$here/lib.sh"
cd "$tmp"
# Descriptors that this script inherited belong to other processes.
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
: >in
bee=$b/bin/bee

await_file() {
	tries=0
	while [ ! -e "$1" ] && [ $tries -lt 1000 ]; do
		tries=$((tries + 1))
		sleep 0.02
	done
}

# Starts a guest, and waits until it is ready.
guest=$g/held-glibc
hold() { # words
	rm -f ready go snap
	"$b/bin/bee-guard" "$bee" "$guest" "$@" <in >got 2>err &
	pid=$!
	await_file ready
}

# Saves the guest, which ends, and waits for it. The file before is replaced,
# not removed: a program that is starting may not have read it yet.
save() {
	"$bee" --snapshot snap --end "$pid" >said 2>why || return 1
	wait "$pid"
	[ $? -eq 125 ]
}

restore() {
	within 60 "$b/bin/bee-guard" "$bee" --restore snap <in >got 2>err
}

is_unharmed() {
	echo unharmed >want
	cmp -s want got
}

# Saves a program that may not run yet.
save_soon() {
	tries=0
	until save || [ $tries -eq 200 ]; do
		tries=$((tries + 1))
		sleep 0.05
	done
	[ $tries -lt 200 ]
}

# Processes of this test that run a program under bee.
list_left() {
	for left in $(pgrep -f -- "$bee --child"); do
		[ "$(readlink "/proc/$left/cwd")" = "$tmp" ] && echo "$left"
	done
}

# The last may end after the first, which the script waits for.
are_none_left() {
	tries=0
	while [ -n "$(list_left)" ] && [ $tries -lt 1000 ]; do
		tries=$((tries + 1))
		sleep 0.02
	done
	[ $tries -lt 1000 ]
}

# Guests that cannot be saved: what each has, and words of the reason, on standard
# input. before: what comes before the words.
refusals() { # before
	rm -f snap
	while read -r what words && [ -n "$what" ]; do
		hold "$what"
		"$bee" --snapshot snap "$pid" >said 2>why
		code=$?
		: >go
		wait "$pid"
		ended=$?
		[ $ended -eq 0 ] && [ $code -eq 126 ] && is_unharmed &&
			grep -q "$1$words" why && [ ! -e snap ] &&
			[ ! -e snap.part ]
		result $? "refused by name: $what; the program is unharmed"
	done
}

refuses() { # name, words; restoring snap must fail with them
	restore
	[ $? -eq 126 ] && grep -q -- "$2" err
	result $? "$1"
}
