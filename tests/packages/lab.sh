#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs within a root of a Debian release, in which only packages are: prints what a
# command says in a machine of the lab.
set -eu
cd /opt/home
{
	dpkg -i "$(find /opt/test/first -name 'skep_*.deb')"
	apt-get update
	apt-get install -y --no-install-recommends qemu-system-x86
} >&2
mkdir mine
cd mine
echo mine >file
skep lab run -- sh -c 'uname -r; cat file; id -un'
skep lab list
