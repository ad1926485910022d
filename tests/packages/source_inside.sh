#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs within a clean root: what README tells a user to type who builds from source. The
# demo's Windows node is this release's Wine.
#
# usage: source_inside.sh FOLDER
set -eu
cd "/opt/test/$1-source"
export PATH="/opt/test/go/bin:$PATH" GOPROXY=file:///opt/test/modules GOSUMDB=off YES=1

apt-get update >&2
apt-get install -y --no-install-recommends make ca-certificates >&2
# First, when only what the demo itself asks for is there.
list_tree()
{
	find . -path ./build -prune -o -type f -printf '%p %s\n' | sort
}
list_tree >/tmp/tree
make demo >&2
echo 'demo: ok'
# The caches that docs/running.md names.
{
	list_tree | diff /tmp/tree - || true
	find "$HOME" -type f | grep -v -e "^$HOME/.cache/go-build/" \
		-e "^$HOME/go/pkg/mod/" -e "^$HOME/.config/go/" || true
} >/tmp/outside
cat /tmp/outside >&2
[ -s /tmp/outside ] || echo 'outside: ok'
make setup >&2
echo 'setup: ok'
make all >&2
echo 'build: ok'
./build/bin/skep version | grep -q "^skep ${1#skep-}" && echo 'version: ok'
