#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions for upgrades below a program, an update and a node of the former release;
# sourced by booted.sh.
# shellcheck disable=SC2154 # booted.sh sets test and state
set -eu

# A user follows another user's link in a folder where everybody may write.
follow_as() # uid
{
	setpriv --reuid "$1" --clear-groups cat /var/tmp/links/strange >/dev/null
}

# The update keeps one user from following the link, and not the other. For the whole
# system this protection is off.
update_in_force() # [for-uid] [other-uid]
{
	sysctl -qw fs.protected_symlinks=0
	mkdir -p /var/tmp/links
	chmod 1777 /var/tmp/links
	ln -sfn /etc/passwd /var/tmp/links/strange
	chown -h 1001 /var/tmp/links/strange
	follow_as "${2:-1002}"
	! follow_as "${1:-1000}" || return 1
	sysctl -qw fs.protected_symlinks=1
}

# A node of the former release, whose files no upgrade replaces. Without Delegate, each
# reload of systemd takes its control groups' files of limits away.
start_old_node()
{
	systemd-run --unit=old-node --collect -p Delegate=yes /opt/former/bin/skep join --state /opt/former/state
}

old_node_ready()
{
	have_text '^old .* up ' skep nodes --state "$state"
}

# Calls and programs run on the node of the former release.
use_old_node()
{
	until_true old_node_ready
	readlink "/proc/$(ask_unit MainPID old-node)/exe" | grep -x /opt/former/bin/skep
	cd /opt/walk
	skep exec --state "$state" --on node=old -- ./a | tee /tmp/exec-old
	grep -q ran /tmp/exec-old
	# The former release cannot drain a node.
	systemctl stop skep-agent
	skep run --state "$state" -- ./master | tee /tmp/master-old
	systemctl start skep-agent
	grep -q 'together 100' /tmp/master-old
	until_true services_ready
}

# A program runs that makes calls. After half of them it waits for a file.
begin_job()
{
	rm -rf /opt/job
	mkdir /opt/job
	cd /opt/job
	cp "$test/job/"* .
	skep gen --build slow.idl slow.c
	skep gen --master count.c
	skep run --state "$state" -- ./count /opt/job/go >out 2>err &
	echo $! >pid
	until_true grep -q 'call 1' out
	cat out
}

# Installs the packages of another release. The services wait for the program, and
# the update stays in force.
upgrade_to() # folder
{
	ask_unit MainPID skep-hub >/tmp/pid-hub
	apt-get install -y --no-install-recommends "$test/$1"/*.deb
	[ "$(dpkg-query -W -f '${Version}' skep)" = "$(dpkg-deb -f "$test/$1"/skep_*.deb Version)" ]
	have_text 'restarts when the programs' skep service status
	[ "$(ask_unit MainPID skep-hub)" = "$(cat /tmp/pid-hub)" ]
	have_text '^links .*committed' skep update status
	skep service status
	cat /opt/job/out
}

# The program ends with the results of all calls. Then the services restart.
end_job()
{
	touch /opt/job/go
	until_true grep -q '^all' /opt/job/out
	cat /opt/job/out /opt/job/err
	grep -qx 'all 40 calls are right' /opt/job/out
	old=$(cat /tmp/pid-hub)
	until_true has_other skep-hub "$old"
	until_true services_ready
	journalctl -b -u skep-hub -u skep-agent --no-pager | grep 'asked for a restart'
	readlink "/proc/$(ask_unit MainPID skep-hub)/exe" | grep -x /usr/bin/skep
	run_programs
}
