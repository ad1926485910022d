#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks our manual pages by man(1) and mandoc, and our completion scripts by
# the shells.
#
# usage: man.sh FOLDER-OF-PAGES FOLDER-OF-SCRIPTS
set -eu

man=$1
scripts=$2
# shellcheck source=tap.sh
. "$(dirname "$0")/tap.sh"
folder=$tmp

# complain COMMAND...: prints its messages, or that it failed.
complain()
{
	"$@" 2>&1 || echo "$* ended with $?"
}

# In a folder of its own, because other suites use the pages at the same time.
mkdir -p "$folder/build/bin"
ln -s "$(realpath "${man%/man}/bin/skep")" "$folder/build/bin/skep"
complain env -u MAKEFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u T \
	make -s -o "$folder/build/bin/skep" B="$folder/build" man | grep -v '^  MAN ' >"$folder/made" || :
complain diff -r "$man" "$folder/build/man" >>"$folder/made"
judge "$folder/made" "make man makes all of it"
(cd "$man" && find man? -type f | sort) >"$folder/pages"
test "$(wc -l <"$folder/pages")" -ge 40 || echo "only $(wc -l <"$folder/pages") pages" >"$folder/few"
: >>"$folder/few"
judge "$folder/few" "all pages were made"
# Rows of the table of installed files with a program: bin/ or bin/NAME.
awk '$4 ~ "^bin/" { n = split($4 == "bin/" ? $3 : $4, part, "/"); print part[n] }' packaging/files.tbl |
	while read -r program; do
		[ -f "$man/man1/$program.1" ] || echo "$program"
	done >"$folder/programs"
grep -q ' bin/' packaging/files.tbl || echo "no program is installed" >"$folder/programs"
judge "$folder/programs" "each installed program has a page"
while read -r page; do
	! grep -q '^\.so ' "$man/$page" || continue # another page's name
	(cd "$man" && complain mandoc -Tlint -Wstyle "$page") || :
done <"$folder/pages" >"$folder/lint"
judge "$folder/lint" "mandoc finds nothing in a page"
while read -r page; do
	(cd "$man" && LC_ALL=C.UTF-8 MANWIDTH=80 complain man --warnings -l "$page" 3>&1 >/dev/null 2>&3) || :
done <"$folder/pages" >"$folder/groff"
judge "$folder/groff" "groff warns of nothing in a page"

# Each mentioned page of ours exists.
sed 's|.*/||' "$folder/pages" | sort >"$folder/have"
(cd "$man" && cat man?/*) | sed 's/\\-/-/g; s/\\fB//g; s/\\fR//g; s/ (/(/' |
	grep -ohE '\b(skep[a-z0-9-]*|omrpc-[a-z]*|bee|dynamos|shimos|o2g|fi_o2g|libo2g-fi)\([1-9]\)' |
	sed 's/(\(.\))/.\1/' | sort -u >"$folder/mentioned"
comm -13 "$folder/have" "$folder/mentioned" >"$folder/missing"
test -s "$folder/mentioned" || echo nothing >"$folder/missing"
judge "$folder/missing" "each page of ours that a page mentions is there"

complain bash -n "$scripts/bash/skep" >"$folder/bash"
judge "$folder/bash" "bash can read its script"
for script in zsh/_skep fish/skep.fish powershell/skep.ps1; do
	grep -q __complete "$scripts/$script" || echo "$script asks nobody"
done >"$folder/others"
judge "$folder/others" "the other shells' scripts ask skep"
for name in zsh fish; do
	! command -v $name >/dev/null || complain $name -n "$scripts/$name"/*
done >"$folder/parsed"
judge "$folder/parsed" "zsh and fish can read theirs, where they are installed"
echo "1..$n"
