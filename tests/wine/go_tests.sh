#!/bin/sh
# SPDX-License-Identifier: MIT
# The agent's own tests as a Windows program: workers run under bee.exe, one
# loader cheats, and one agent is killed. usage: agent.sh BUILD GO-TEST-NAMES
set -eu
b=$(pwd)/$1
AGENT_TEST_WORKER="Z:$b/test/agent/worker"
AGENT_TEST_CHEAT="Z:$b/test/wine/cheat.exe"
AGENT_TEST_MARK=$b/test/agent/mark
export AGENT_TEST_WORKER AGENT_TEST_CHEAT AGENT_TEST_MARK
rm -f "$AGENT_TEST_MARK"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$b" wine-agent
wine wineboot -i >/dev/null 2>&1 || true
cp "$b/test/wine/bcryptprimitives.dll" \
	"$WINEPREFIX/drive_c/windows/system32/"
cd grid/agent
wine "$b/test/agent/agent.test.exe" -test.v 2>&1 | tap_of_go
