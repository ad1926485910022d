#!/bin/sh
# SPDX-License-Identifier: MIT
# Two releases of one commit, built in two folders on days that are 400 apart, with
# other dates of all files, another umask, language and time zone, have equal bytes.
#
# libfaketime changes the clock of dynamic programs: compilers, linkers, archivers,
# shells and Python. Go's static programs see the real one; that they write no time
# is what TestArchivesSayNoPlaceAndTime shows.
#
# usage: release_twice.sh BUILD
set -eu

build=$1
folder=$(realpath "$build")/test/release-twice
rm -rf "$folder"
mkdir -p "$folder"
trap 'rm -rf "$folder"' EXIT

# Both are clones of the same commit, even if there is a new commit meanwhile.
git clone -q . "$folder/one"
git clone -q "$folder/one" "$folder/another-longer-name"

clock=$(find /usr/lib -name libfaketime.so.1 | head -n 1)
test -n "$clock" || { echo "not ok 1 - the package faketime is missing: make setup"; echo "1..1"; exit 1; }

# make_release FOLDER DATE DAYS: its checksums are in FOLDER.sums. The clock is DAYS
# ahead; waits take their real time.
make_release()
{
	export LD_PRELOAD="$clock" FAKETIME="+$3d" FAKETIME_DONT_FAKE_MONOTONIC=1
	date +%s >"$folder/$1.clock"
	find "$folder/$1" -path '*/.git' -prune -o -type f -exec touch -d "$2" {} +
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$folder/$1" -s release >"$folder/$1.log" 2>&1 ||
		{ tail -n 20 "$folder/$1.log" | sed 's/^/# /'; return 1; }
	cp "$folder/$1/build/release/SHA256SUMS" "$folder/$1.sums"
}

r=0
(umask 022 && TZ=UTC LC_ALL=C make_release one 2024-01-02 0) || r=1
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 make_release another-longer-name 2026-05-06 400) || r=1
[ "$r" = 0 ] && echo "ok 1 - both releases were made" || echo "not ok 1 - both releases were made"
if cmp -s "$folder/one.sums" "$folder/another-longer-name.sums"; then
	echo "ok 2 - their bytes are equal"
else
	diff "$folder/one.sums" "$folder/another-longer-name.sums" | sed 's/^/# /' || :
	for name in one another-longer-name; do
		mkdir "$folder/$name.files"
		for archive in "$folder/$name"/build/release/*.tar.gz; do
			tar -C "$folder/$name.files" -xzf "$archive" || :
		done
	done
	diff -rq "$folder/one.files" "$folder/another-longer-name.files" | sed 's/^/# /' || :
	echo "not ok 2 - their bytes are equal"
fi
test "$(wc -l <"$folder/one.sums")" -ge 4 && echo "ok 3 - each has archives for Linux, Windows and sources" ||
	echo "not ok 3 - each has archives for Linux, Windows and sources"
passed=$(($(cat "$folder/another-longer-name.clock") - $(cat "$folder/one.clock")))
[ "$passed" -ge $((399 * 86400)) ] && echo "ok 4 - the second one was built at least 399 days later" ||
	echo "not ok 4 - the second one was built at least 399 days later"
echo "1..4"
