#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests of Go's own run-time, whose goroutines have stacks of 2 KiB and recover
# from faults on them. usage: go-runtime.sh BUILD TEST-PROGRAM
set -eu
b=$1
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$b" wine
wine "$b/bin/bee.exe" --version >/dev/null 2>&1
within 280 "$b/bin/bee-guard" wine "$b/bin/bee.exe" "$2" -test.v -test.short \
	-test.run 'TestCallers|TestChan|TestGC$' 2>&1 | tap_of_go
