#!/bin/sh
# SPDX-License-Identifier: MIT
# Services of an ordinary user: what docs/services.md types without root, with this
# computer's systemd as the user's own: user.sh BUILD
set -eu
build=$1
. "$(dirname "$0")/../tap.sh"
. "$(dirname "$0")/apart.sh"

if [ "$(id -u)" != 0 ]; then
	echo "ok 1 - services of a user # SKIP only root can give a second systemd a control group"
	echo 1..1
	exit 0
fi
# A container may give even its root none.
if ! unshare --mount --cgroup sh tests/packages/user_probe.sh 2>"$tmp/why"; then
	sed 's/^/# /' "$tmp/why"
	echo "ok 1 - services of a user # SKIP root gets no control group here"
	echo 1..1
	exit 0
fi
at=$(realpath "$build")/test/service-user
rm -rf "$at"
mkdir -p "$at"
cp "$build/bin/skep" tests/packages/user_inside.sh "$at"
within 300 unshare --mount --net --cgroup --pid --fork --kill-child --mount-proc \
	sh -eu tests/packages/user_root.sh "$at" >"$tmp/got" 2>"$tmp/err" || true
read_steps user <<'END'
hub skep service install hub --user
agent skep service install agent HOST:PORT --token-file token --user
program a program runs on the node
killed systemd starts a hub and an agent that were killed again
login both start at the next login
uninstall skep service uninstall leaves no unit and no process
clean the user's control groups are removed
END
end_root
