#!/bin/sh
# SPDX-License-Identifier: MIT
# The agent's own tests as a Windows program: workers run under bee.exe, one
# loader cheats, and one agent is killed. usage: agent.sh BUILD GO-TEST-NAMES
set -eu
b=$(pwd)/$1
WINEPREFIX=${WINEPREFIX:-$b/wine-agent}
WINEDEBUG=-all
AGENT_TEST_WORKER="Z:$b/test/agent/worker"
AGENT_TEST_CHEAT="Z:$b/test/wine/cheat.exe"
AGENT_TEST_MARK=$b/test/agent/mark
export WINEPREFIX WINEDEBUG AGENT_TEST_WORKER AGENT_TEST_CHEAT AGENT_TEST_MARK
rm -f "$AGENT_TEST_MARK"
unset DISPLAY
if ! command -v wine >/dev/null 2>&1; then
	echo "Bail out! no wine here; run: make setup"
	exit 1
fi
wine wineboot -i >/dev/null 2>&1 || true
cp "$b/test/wine/bcryptprimitives.dll" \
	"$WINEPREFIX/drive_c/windows/system32/"
trap 'wineserver -k || true; wineserver -w || true' EXIT
cd grid/agent
wine "$b/test/agent/agent.test.exe" -test.v 2>&1 |
	tr -d '\r' | awk '
/^--- (PASS|FAIL|SKIP):/ {
	printf "%s %d - %s\n", $2 == "PASS:" ? "ok" : "not ok", ++n, $3
	if ($2 != "PASS:") bad = 1
	next
}
/^PASS$/ { passed = 1 }
{ print "# " $0 }
END {
	if (!passed) printf "not ok %d - the test program ended with status 0\n", ++n
	print "1.." n
	exit bad || !passed
}'
