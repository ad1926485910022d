#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs user_inside.sh of a folder as an ordinary user, in namespaces of its own: the user
# has a home, a folder for sockets, and a control group, as after a login.
#
# usage: user_root.sh FOLDER
set -eu
uid=12345

ip link set lo up
mount -t tmpfs none /opt
mkdir /opt/bin /opt/home /opt/cgroup
cp "$1/skep" "$1/user_inside.sh" /opt/bin
mount -t tmpfs none /run
mkdir -p /run/systemd/system "/run/user/$uid"
chmod 700 "/run/user/$uid"
chown "$uid:$uid" /opt/home "/run/user/$uid"

# Only root may move a process into the group, so this one enters it first.
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/skep-test-$(cat /proc/sys/kernel/random/uuid)
mkdir "$group"
for file in "" cgroup.procs cgroup.threads cgroup.subtree_control; do
	chown "$uid:$uid" "$group/$file"
done
remove_groups()
{
	echo $$ >/sys/fs/cgroup/cgroup.procs
	echo 1 >"$group/cgroup.kill"
	until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do
		sleep 0.1
	done
	echo 'clean: ok'
}
trap remove_groups EXIT
echo $$ >"$group/cgroup.procs"
setpriv --reuid "$uid" --regid "$uid" --clear-groups env -i HOME=/opt/home LC_ALL=C.UTF-8 \
	XDG_RUNTIME_DIR="/run/user/$uid" PATH=/opt/bin:/usr/bin:/bin \
	sh -eu /opt/bin/user_inside.sh </dev/null
