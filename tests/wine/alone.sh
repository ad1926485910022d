#!/bin/sh
# SPDX-License-Identifier: MIT
# skep.exe without libraries other than Wine's own. usage: alone.sh BUILD
set -eu
b=$1
# shellcheck source=../../tests/tap.sh
. "$(dirname "$0")/../../tests/tap.sh"
# shellcheck source=../../tests/wine/wine.sh
. "$(dirname "$0")/wine.sh"
wine_begin "$b" wine
code=0
[ ! -e "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" ] || code=1
result $code "the prefix has Wine's own libraries alone"
code=0
within 280 wine "$b/bin/skep.exe" version >"$tmp/got" 2>"$tmp/err" &&
	grep -q '^skep .* for windows/amd64' "$tmp/got" || code=1
result $code "skep.exe starts without bcryptprimitives.dll"
# A new node generates its key by random numbers before it connects to a hub.
"$b/bin/skep" up --no-agent --no-token --listen 127.0.0.1:0 \
	--state "$tmp/state" >"$tmp/hub" 2>&1 &
hub=$!
trap 'kill "$hub" || true; wine_end' EXIT
i=0
until token=$("$b/bin/skep" token --state "$tmp/state" 2>/dev/null); do
	i=$((i + 1))
	[ "$i" -lt 600 ] || break
	sleep 0.1
done
echo "$token" >"$tmp/token"
address=${token##* } # the join command's last word
code=0
within 280 wine "$b/bin/skep.exe" join "$address" --only --token-file \
	"$tmp/token" --state "Z:$tmp/node" >"$tmp/got" 2>"$tmp/err" || code=1
result $code "skep.exe makes keys and joins without it"
echo "1..$n"
exit $failed
