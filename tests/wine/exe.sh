#!/bin/sh
# SPDX-License-Identifier: MIT
# One test program of Windows, which prints TAP. usage: exe.sh BUILD PROGRAM
set -eu
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$1" wine
wine "$2"
