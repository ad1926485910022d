#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of a Go package of the grid as a Windows program. The agent's start workers
# under bee.exe, of which one cheats, and kill an agent.
# usage: go_tests.sh BUILD PACKAGE [NAMES-OF-TESTS]
set -eu
b=$(pwd)/$1
AGENT_TEST_WORKER="Z:$b/test/agent/worker"
AGENT_TEST_CHEAT="Z:$b/test/wine/cheat.exe"
AGENT_TEST_MARK=$b/test/agent/mark
export AGENT_TEST_WORKER AGENT_TEST_CHEAT AGENT_TEST_MARK
rm -f "$AGENT_TEST_MARK"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$b" "wine-$2"
cd "grid/$2"
wine "$b/test/$2/$2.test.exe" -test.v -test.run "${3:-.}" 2>&1 | tap_of_go
