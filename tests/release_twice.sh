#!/bin/sh
# SPDX-License-Identifier: MIT
# Two releases of one commit, built in two folders with other dates of all
# files, another umask, language and time zone, have equal bytes.
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

# make_release FOLDER DATE: its checksums are in FOLDER.sums.
make_release()
{
	find "$folder/$1" -path '*/.git' -prune -o -type f -exec touch -d "$2" {} +
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$folder/$1" -s release >"$folder/$1.log" 2>&1 ||
		{ tail -n 20 "$folder/$1.log" | sed 's/^/# /'; return 1; }
	cp "$folder/$1/build/release/SHA256SUMS" "$folder/$1.sums"
}

r=0
(umask 022 && TZ=UTC LC_ALL=C make_release one 2024-01-02) || r=1
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 make_release another-longer-name 2026-05-06) || r=1
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
echo "1..3"
