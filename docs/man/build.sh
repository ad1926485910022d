#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts all manual pages below BUILD/man, and the scripts for completion below
# BUILD/completion.
#
# usage: build.sh BUILD PAGE...
set -eu

build=$1
shift
made=$build/gen/pages
rm -rf "$made" "$build/man" "$build/completion"
mkdir -p "$made"
"$build/bin/skep" pages "$made"
for page in "$made"/man/* "$@"; do
	folder=$build/man/man${page##*.}
	mkdir -p "$folder"
	cp "$page" "$folder"
done
cp -r "$made/completion" "$build/completion"
