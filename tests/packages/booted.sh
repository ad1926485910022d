#!/bin/sh
# SPDX-License-Identifier: MIT
# Functions for commands that are typed in a booted Debian system, as root; sourced.
# Files of the test are in /opt/test, packages of two versions in first and second.
set -eu

test=/opt/test
state=/var/lib/skep
. "$test/apart.sh"
. "$test/upgraded.sh"

# Polls; the caller ends a wait that takes too long.
until_true() # command...
{
	until "$@" >/dev/null 2>&1; do
		sleep 1
	done
}

have_text() # text command...
{
	text=$1
	shift
	"$@" 2>&1 | grep -q -e "$text"
}

# The value of a unit's property.
ask_unit() # property unit
{
	systemctl show -P "$1" "$2"
}

# Both services run and are connected.
services_ready()
{
	have_text '^hub .*active (running)' skep service status &&
		have_text '^agent .*connected to the hub' skep service status
}

# The update is committed again, two minutes after the boot. The service goes on: it
# carries out rolls.
settled()
{
	have_text '^links .*committed' skep update status &&
		[ "$(ask_unit SubState skep-kernel)" = running ]
}

list_files()
{
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
		-o -path /opt -o -path /root -o -path /var/tmp -o -path /var/lib/dpkg \
		-o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
		-o -path /var/lib/systemd -o -path /etc/ld.so.cache \
		-o -path /var/lib/private -o -path /var/backups \
		-o -path '/var/lib/dkms/mok.*' -o -path '/usr/lib/modules/*/modules.*' \
		-o -path '/boot/initrd.img-*' \) -prune -o -print | sort
}

# Programs run on the node of the service.
run_programs()
{
	cd /opt/walk
	skep run --state $state -- ./master | tee /tmp/master
	grep -q 'together 100' /tmp/master
	skep exec --state $state -- ./a | tee /tmp/exec
	grep -qx ran /tmp/exec
}

# The service has another process than PID.
has_other() # unit pid
{
	now=$(ask_unit MainPID "$1")
	[ "$now" -gt 0 ] && [ "$now" != "$2" ]
}

list_packages()
{
	for deb in "$test"/second/*.deb; do
		dpkg-deb -f "$deb" Package
	done
}
