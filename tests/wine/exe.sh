#!/bin/sh
# SPDX-License-Identifier: MIT
# One test program of Windows, which prints TAP. usage: exe.sh BUILD PROGRAM
set -eu
WINEPREFIX=${WINEPREFIX:-$(pwd)/$1/wine}
WINEDEBUG=-all
export WINEPREFIX WINEDEBUG
unset DISPLAY
if ! command -v wine >/dev/null 2>&1; then
	echo "Bail out! no wine here; run: make setup"
	exit 1
fi
# Wine's services end after its programs, on a busy computer much later.
trap 'wineserver -k || true; wineserver -w || true' EXIT
wine "$2"
