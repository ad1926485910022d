#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2238 # `in`, `got` and `dd` are names of files
# Snapshots while the command, the program or the disk fails. usage: snapdeath.sh
# BUILD
set -eu
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"

# 100 MiB take long enough to write. Whatever is killed when: the program is
# there, or a whole file.
check_killed() {
	hold memory 100
	for after in 0 0.005 0.01 0.02 0.03 0.05 0.08 0.1 0.15 0.2 0.3; do
		rm -f snap
		"$bee" --snapshot snap --end "$pid" >said 2>why &
		command=$!
		sleep $after
		kill -9 $command 2>dd
		wait $command 2>dd
		[ ! -e snap ] || break
	done
	if [ ! -e snap ] || kill -0 "$pid" 2>dd; then
		save
	fi
	wait "$pid" 2>dd
	: >go
	restore && is_unharmed
	result $? "a command that is killed leaves the program or a whole file"
	rm -f snap
	hold memory 100
	"$bee" --snapshot snap "$pid" >said 2>why &
	command=$!
	sleep 0.05
	kill -9 "$(pgrep -P "$pid")"
	wait $command
	code=$?
	wait "$pid"
	: >go
	if [ $code -eq 0 ]; then # it was quicker
		restore && is_unharmed
	else
		[ ! -e snap ] && [ ! -e snap.part ]
	fi
	result $? "a program that is killed leaves no torn file"
}

# In name spaces of its own, where anyone may mount.
fill_disk() {
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare -rm sh -c 'mkdir -p small && rm -f ready go &&
		mount -t tmpfs -o size=1m none small || exit 99
		"$0" "$1" memory 8 <in >got 2>err &
		while [ ! -e ready ]; do sleep 0.02; done
		"$0" --snapshot small/snap --end $! 2>why
		echo "exit $?" >seen
		ls small >>seen
		: >go
		wait' "$bee" "$g/held-glibc" 2>dd
}

check_full() {
	name="a full disk: no file, and the program is unharmed"
	if ! fill_disk && [ ! -e seen ]; then
		n=$((n + 1))
		echo "ok $n - $name # SKIP no file system of its own"
		return
	fi
	is_unharmed && [ "$(cat seen)" = 'exit 126' ] && grep -q 'no space' why
	result $? "$name"
}

# The command's signal must not reach a process that is not ready for it.
check_start() {
	bad=0
	turn=0
	while [ $turn -lt 40 ]; do
		turn=$((turn + 1))
		"$bee" "$g/hello-glibc" <in >got 2>err &
		pid=$!
		for which in 1 2 3; do
			"$bee" --snapshot snap$which "$pid" >said 2>why &
		done
		wait "$pid"
		[ $? -eq 7 ] || bad=$((bad + 1))
		wait
	done
	[ $bad -eq 0 ]
	result $? "commands while a program starts or ends leave it unharmed"
}

check_start
check_killed
check_full
echo "1..$n"
exit "$failed"
