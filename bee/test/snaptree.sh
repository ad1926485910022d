#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2238 # `in`, `got` and `dd` are names of files
# Snapshots of programs that have child processes: all are saved together, and go
# on together. usage: snaptree.sh BUILD
set -eu
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"

end_left() {
	list_left | while read -r left; do
		kill -9 "$left" 2>dd
	done
}

goes_on() { # kind of the guest
	guest=$g/tree-$1
	hold
	save && : >go && restore && is_unharmed
	result $? "processes go on together: $1"
}

# A restored program is saved again, through a pipe, and its processes have
# numbers of two kernels.
check_twice() {
	hold
	save
	cp snap first
	cp shared before
	mkfifo pipe
	cat snap >pipe &
	"$b/bin/bee-guard" "$bee" --restore pipe <in >got 2>err &
	pid=$!
	save_soon && : >go && restore && is_unharmed
	result $? "processes are saved twice, the second time from a pipe"
}

check_stays() {
	hold
	"$bee" --snapshot snap "$pid" >said 2>why
	code=$?
	: >go
	wait "$pid" && [ $code -eq 0 ] && is_unharmed
	result $? "saved without --end, they go on"
}

check_hostile() {
	cp before shared
	while read -r number edit words && [ -n "$number" ]; do
		python3 "$here/snapedit.py" first snap "$number" "$edit"
		refuses "a process that is not valid is refused: $edit" "$words"
	done
	cp first snap
	rmdir own
	refuses "one process that cannot be restored stops all" \
		'another process of its run could not be restored'
	mkdir own
	are_none_left
	result $? "none of them leaves a process"
	cp first snap
	restore && is_unharmed
	result $? "the snapshot as it was is restored"
}

# Whatever is killed when: the program is saved, or goes on, or has ended.
check_killed() {
	bad=0
	for after in 0 0.003 0.006 0.01 0.015 0.02 0.03 0.05; do
		hold
		child=$(pgrep -P "$(pgrep -P "$pid")" | tail -1)
		"$bee" --snapshot snap "$pid" >said 2>why &
		command=$!
		sleep $after
		kill -9 "$child"
		wait $command
		code=$?
		kill -0 "$pid" || bad=1
		[ $code -eq 0 ] || [ ! -e snap ] || bad=1
		: >go
		wait "$pid" # it misses the child, and says so
		end_left
	done
	[ $bad -eq 0 ]
	result $? "a process that is killed meanwhile leaves the program running"
}

for kind in glibc glibc-dynamic musl-dynamic; do
	goes_on $kind
done
guest=$g/tree-glibc
check_stays
check_twice
check_hostile <<'END'
1 parent=1 not valid
1 parent=5 not valid
6 parent=4294967295 not valid
1 number=2 not valid
1 pid=1 not valid
1 pid=0x3fffff not valid
1 pid=0x40000000 not valid
0 pid=77 not valid
1 group=64 not valid
1 session=40 not valid
6 status=0x137f not valid
7 status=19 not valid
1 ended=2 not valid
0 ended=1 not valid
1 lost a process is missing
1 torn its digest is wrong
0 shared.number=63 not valid
END
refusals 'process .* of its run: .*' <<'END'
socket is a socket
headless its first thread has ended
gone the leader of its process group has ended
lone the leader of its session has ended
nameless a file without a name
stopped it is stopped
many there are more than 64
END
check_killed
echo "1..$n"
exit "$failed"
