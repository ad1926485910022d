#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes OUT/disk of a Debian release: a root with systemd, a kernel, and a shell on
# the port of the lab; OUT/vmlinuz and OUT/initrd are its own.
#
# usage: system.sh BUILD SUITE OUT
set -eu

build=$1
suite=$2
out=$3
root=$build/_root/$suite-system
sh "$(dirname "$0")/root.sh" "$build" "$suite" system

mkdir -p "$out"
cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
cp "$root"/boot/initrd.img-* "$out/initrd"
rm -f "$out/disk"
mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$out/disk" 5G
