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
begin_root "$build" "$suite" source

# Go comes from this computer, since README asks users for it, and so do the
# modules that it would fetch.
tar -xzf "$build/release/skep-$version-source.tar.gz" -C "$at" &&
	cp -a "$(go env GOROOT)" "$at/go" &&
	cp -a "$(go env GOMODCACHE)/cache/download" "$at/modules" &&
	cp tests/packages/source_inside.sh "$at" && r=0 || r=1
result "$r" "the source archive of the release"

judge_steps 3300 "$suite" source_inside.sh "skep-$version" <<'END'
demo make demo, on a Linux and a Windows node, with the packages that it asks for
outside the demo writes only to build/ and to the caches of Go
setup make setup
build make all
version skep says its version
END

end_root
