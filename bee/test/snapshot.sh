#!/bin/sh
# SPDX-License-Identifier: MIT
# Snapshots: programs are saved at any moment and restored. The answer of a run
# without snapshots is the oracle. usage: snapshot.sh BUILD MOMENTS [SEED]
set -eu
moments=$2
seed=${3:-1}
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"

goes_on() { # name, and what the guest has
	name=$1
	shift
	hold "$@"
	save && sleep "$gap" && : >go && restore && is_unharmed
	result $? "$name"
}

# A restored program is saved again, with the libraries that were made again.
check_twice() {
	hold "$part" "$g/library/joined.so"
	save
	"$b/bin/bee-guard" "$bee" --restore snap <in >got 2>err &
	pid=$!
	save_soon && : >go && restore && is_unharmed
	result $? "a dynamic program is saved twice"
}

# Moments ---------------------------------------------------------------------

delay() { # seconds, in hundredths: from, to
	awk -v s="$seed$hop$moment" -v a="$1" -v b="$2" \
		'BEGIN { srand(s); print (a + rand() * (b - a)) / 100 }'
}

# One program, saved and restored up to 5 times. Fails if an answer differs.
one_moment() {
	hop=0
	"$bee" "$g/saved-$1" log 3000 <in >out 2>err &
	pid=$!
	sleep "$(delay 5 50)"
	while [ $hop -lt 5 ] && save; do
		hop=$((hop + 1))
		saved=$((saved + 1))
		"$bee" --restore snap <in >out 2>err &
		pid=$!
		sleep "$(delay 1 40)"
	done
	wait "$pid" && cmp -s out want && cmp -s log want.log
}

check_moments() {
	"$g/saved-glibc" want.log 3000 >want
	moment=0
	saved=0
	bad=0
	while [ $moment -lt "$moments" ] && [ $bad -eq 0 ]; do
		moment=$((moment + 1))
		case $((moment % 4)) in
		0) libc=musl ;;
		1) libc=glibc-dynamic ;;
		2) libc=musl-dynamic ;;
		*) libc=glibc ;;
		esac
		one_moment $libc || bad=1
	done
	echo "# $moment programs were saved and restored $saved times"
	cp out got
	[ $bad -eq 0 ] && [ $saved -ge "$moment" ]
	result $? "threads, timers, vector registers, files and a pipe: any moment"
}

gap=4 # which its monotonic time must not show
goes_on "a restored program keeps its number and clocks" self
gap=0
for what in signals files events timers loading listings memory; do
	goes_on "a restored program keeps its $what" $what
done
for guest in "$g/held-glibc-dynamic" "$g/held-musl-dynamic"; do
	goes_on "a dynamic program goes on: ${guest##*held-}" memory 64 few
done
guest=$g/unnamed-glibc
goes_on "files without a name go on"
guest=$g/loads-glibc-dynamic
part=$g/library/part.so
goes_on "libraries that were opened go on" "$part" "$g/library/joined.so"
check_twice
guest=$g/held-glibc
hold memory
"$bee" --snapshot snap "$pid" >said 2>why
result $? "a program that is saved without --end goes on"
: >go
wait "$pid" && is_unharmed
result $? "it is unharmed"
refusals '' <<'END'
socket descriptor 3 is a socket
pair descriptor 3 is a socket
eventfd descriptor 3 is an eventfd that another process has or had
inotify descriptor 3 is neither a file nor a folder
shared shared mapping
mapped shared mapping
sysv System V
flock is locked
lock locks
linked was removed
listing is a folder that it is listing
beyond a mapping reaches beyond the end of its file
proc is a file of /proc
code code that it made
END
check_moments
echo "1..$n"
exit "$failed"
