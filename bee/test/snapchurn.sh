#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2238 # `in`, `got` and `dd` are names of files
# Snapshots of programs whose processes start others all the time. usage:
# snapchurn.sh BUILD
set -eu
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"

# Processes start others all the time, of which none may be missing, or rest for
# ever.
check_churn() {
	guest=$g/churn-$1
	hold
	for time in 1 2 3 4 5 6 7 8 9 10; do
		within 60 "$bee" --snapshot snap "$pid" >said 2>why || break
	done
	[ "$time" -eq 10 ] && save && {
		"$b/bin/bee-guard" "$bee" --restore snap <in >got 2>err &
		pid=$!
		save_soon
	} && : >go && restore && is_unharmed && are_none_left
	result $? "processes that start others all the time are saved: $1"
}

# In name spaces of its own: where numbers begin again at 300, a child of vfork is
# found before its parent, which cannot rest before the child executes.
save_late() {
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare -rpf --mount-proc sh -c '
		most=$(cat /proc/sys/kernel/pid_max)
		"$0" "$1" late <in >got 2>err &
		while [ ! -e begins ]; do sleep 0.02; done
		echo $((most - 3)) >/proc/sys/kernel/ns_last_pid || exit 99
		: >start
		while [ ! -e waits ]; do sleep 0.02; done
		"$0" --snapshot snap "$(pgrep -o -f -- "$0 --child")" 2>why &
		sleep 0.2
		: >exec
		wait $!
		echo "exit $?" >seen
		: >go
		wait' "$bee" "$g/churn-glibc" 2>dd
}

check_late() {
	name="a child of vfork executes before its parent is saved"
	rm -f ready go snap
	if ! save_late && [ ! -e seen ]; then
		n=$((n + 1))
		echo "ok $n - $name # SKIP no numbers of its own"
		return
	fi
	is_unharmed && [ "$(cat seen)" = 'exit 0' ] && [ -e snap ]
	result $? "$name"
}

check_churn glibc
check_churn musl
check_late
echo "1..$n"
exit "$failed"
