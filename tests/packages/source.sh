#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Skep from the source archive of its release in a clean root of a Debian
# release, with that release's compilers: source.sh BUILD SUITE VERSION
set -eu
build=$1
suite=$2
version=$3
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/apart.sh"

top=$(pwd)
at=$(realpath "$build")/test/source-$suite
root=$(realpath "$build")/_root/$suite
rm -rf "$at"
mkdir -p "$at"

within 900 sh tests/packages/root.sh "$build" "$suite" >"$tmp/err" 2>&1 &&
	r=0 || r=1
result "$r" "a clean root of $suite"

# Go comes from this computer, since README asks users for it, and so do the
# modules that it would fetch.
tar -xzf "$build/release/skep-$version-source.tar.gz" -C "$at" &&
	cp -a "$(go env GOROOT)" "$at/go" &&
	cp -a "$(go env GOMODCACHE)/cache/download" "$at/modules" &&
	cp tests/packages/source_inside.sh "$at" && r=0 || r=1
result "$r" "the source archive of the release"

run_apart 3300 "$root" "$top" "$at" source_inside.sh "skep-$version" \
	>"$tmp/got" 2>"$tmp/err" || true
while read -r step name; do
	grep -qx "$step: ok" "$tmp/got" && r=0 || r=1
	result "$r" "$suite: $name"
done <<'END'
setup make setup
build make all
version skep says its version
END

rm -rf "$at"
echo "1..$n"
exit $failed
