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
make setup >&2
echo 'setup: ok'
make all >&2
echo 'build: ok'
./build/bin/skep version | grep -q "^skep ${1#skep-}" && echo 'version: ok'
make demo >&2
echo 'demo: ok'
