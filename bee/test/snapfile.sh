#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2238,SC2181,SC2094 # `in`, `got` and `dd` are names of files
# Snapshot files that are torn, changed or foreign, files that programs had open
# and that changed, commands and programs that die, a full disk. usage:
# snapfile.sh BUILD
set -eu
# shellcheck source=bee/test/snaplib.sh
. "$(dirname "$0")/snaplib.sh"

check_mode() {
	hold memory 8
	(umask 0 && "$bee" --snapshot snap "$pid") >said 2>why
	stat -c %a snap >got
	echo 600 >want
	cmp -s want got
	result $? "only its owner may read a snapshot"
	echo other >snap.part
	save
	result $? "what a dead command left is taken over"
	: >go
	mv snap whole
	size=$(stat -c %s whole)
}

check_torn() {
	bad=0
	for part in 0 1 15 16 40 99 500 900 990 999; do
		head -c $((size * part / 1000)) whole >snap
		restore && bad=1
		grep -q 'refused to restore' err || bad=1
	done
	head -c $((size - 1)) whole >snap
	restore && bad=1
	[ $bad -eq 0 ]
	result $? "a torn file is refused"
	for at in 9 20 300 5000 $((size / 2)) $((size - 10)); do
		cp whole snap
		printf '\377' | dd of=snap bs=1 seek="$at" conv=notrunc 2>dd
		cmp -s whole snap && continue
		restore && bad=1
		grep -q -e 'its digest is wrong' -e 'another version' err || bad=1
	done
	[ $bad -eq 0 ]
	result $? "a changed byte is refused"
}

check_foreign() {
	cp whole snap
	printf '\003' | dd of=snap bs=1 seek=8 conv=notrunc 2>dd
	refuses "another version is refused by name" 'another version of the format'
	cp "$g/held-glibc" snap
	refuses "another file is refused by name" 'no snapshot of bee'
	cp whole snap
	BEE_VEC=fxsave within 60 "$g/bee-fallback" --restore snap <in >got 2>err
	[ $? -eq 126 ] && grep -q 'this CPU lacks' err
	result $? "a CPU that lacks a feature is refused by name"
	prlimit --as=4000000000 "$bee" --restore snap <in >got 2>err
	grep -q 'the address range of guests is not free' err
	result $? "an address range that is taken is refused by name"
	within 60 "$bee" --memory 1M --restore snap <in >got 2>err
	[ $? -eq 126 ] && grep -q -- '--memory' err
	result $? "too little memory is refused by name"
	within 60 "$bee" --restore snap "$g/hello-glibc" <in >got 2>err
	[ $? -eq 126 ] && grep -q 'has changed since' err
	result $? "another program is refused by name"
	restore && is_unharmed
	result $? "after all this the whole file is restored"
}

check_changed() {
	hold files
	save
	: >go
	cp a old
	echo more >>a
	refuses "a file that has grown is refused by name" 'truncate -s 10'
	tr 5 6 <old >a
	refuses "a file that was changed is refused by name" \
		'a has changed since the snapshot'
	mv a gone
	refuses "a file that is gone is refused by name" 'a cannot be opened'
	mkfifo a
	refuses "a pipe in the place of a file is refused" 'a has changed'
	rm a
	cp old a
	restore && is_unharmed
	result $? "the file as it was is accepted"
	mkdir deep
	(cd deep && exec "$bee" "$g/held-glibc" signals \
		<../in >../got 2>../err) &
	pid=$!
	await_file deep/ready
	save && rm -r deep
	refuses "a working directory that is gone is refused by name" \
		'its working directory .* does not exist'
}

check_use() {
	bad=0
	for words in '' 1 x 12x "$b"; do
		"$bee" --snapshot snap "$words" >said 2>why
		[ $? -eq 2 ] || bad=1
	done
	"$bee" --snapshot snap $$ >said 2>why
	[ $? -eq 126 ] && grep -q "no running bee" why && [ $bad -eq 0 ]
	result $? "wrong process numbers are refused, other programs live"
	code "a snapshot that does not exist" 126 "$bee" --restore nothing
	grep -q 'refused to restore nothing: No such file' err
	result $? "it is named"
}

check_mode
check_torn
check_foreign
check_changed
check_use
echo "1..$n"
exit "$failed"
