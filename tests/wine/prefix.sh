#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes Wine prefixes. usage: prefix.sh FRESH [COPY]
#
# Without COPY it makes FRESH, which no test uses: Wine takes seconds and 700 MB
# for a prefix. With COPY it makes a prefix that has Wine's own libraries as hard
# links to those of FRESH, and all else of its own: Wine would write through a
# link of its registry's files, and the file wineserver names a running server.
# Whoever replaces a library in a prefix removes the link first.
set -eu
fresh=$1
new=${2:-$fresh}
part=$new.part # what was cut stays under this name
rm -rf "$new" "$part"
mkdir "$part"
if [ "$new" != "$fresh" ]; then
	libraries=drive_c/windows/system32
	tar -C "$fresh" -cf "$part/rest.tar" --exclude="./$libraries" .
	tar -C "$part" -xf "$part/rest.tar"
	rm -f "$part/rest.tar" "$part/wineserver"
	cp -al "$fresh/$libraries" "$part/$libraries"
	mv "$part" "$new"
	exit
fi
command -v wine >/dev/null 2>&1 || {
	echo "prefix.sh: no wine here; run: make setup" >&2
	exit 1
}
WINEPREFIX=$(cd "$part" && pwd)
export WINEPREFIX WINEDEBUG=-all LC_ALL=C.UTF-8
unset DISPLAY
wine wineboot -i >"$part/said" 2>&1 || true
# Each process asks the registry about all time zones until it finds its own, which is
# half of the requests of its start.
wine reg delete 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\Time Zones' \
	/f >>"$part/said" 2>&1 || true
wineserver -w
# wineboot registers this service late: without it Wine asks its server at each fstat.
grep -qi 'services.*\\mountmgr\]' "$part/system.reg" || {
	echo "prefix.sh: Wine made no whole prefix; it said:" >&2
	cat "$part/said" >&2
	exit 1
}
rm -f "$part/said"
mv "$part" "$new"
