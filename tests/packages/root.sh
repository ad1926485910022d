#!/bin/sh
# SPDX-License-Identifier: MIT
# Creates a clean root of a Debian release, once: BUILD/_root/SUITE, with a
# compiler and what DKMS needs. With "system" it is BUILD/_root/SUITE-system, which
# can boot: with a kernel, systemd, an MPI, and a shell on the lab's port. Its apt
# uses this computer's mirrors. Go ignores folders whose names begin with _.
#
# usage: root.sh BUILD SUITE [system]
set -eu

build=$1
suite=$2
kind=${3:-}
root=$build/_root/$suite${kind:+-$kind}
[ ! -e "$root" ] || exit 0
mkdir -p "$build/_root"

die()
{
	printf 'root.sh: %s\n' "$*" >&2
	exit 1
}

# The URLs of this computer's mirrors of Debian and of its security updates.
find_site()
{
	apt-get indextargets --format "\$(LABEL) \$(COMPONENT) \$(SITE)" |
		sed -n "s/^$1 main //p" | head -n 1
}

site=$(find_site Debian)
[ -n "$site" ] || die "apt knows no source of Debian: run apt-get update"
security=$(find_site Debian-Security)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
apt-config dump --format '%F "%v";%n' Acquire |
	grep -E '^Acquire::(http|https|Retries|ForceIPv[46])\b' \
		>"$scratch/reach" || true
{
	printf 'deb %s %s main\n' "$site" "$suite"
	printf 'deb %s %s-updates main\n' "$site" "$suite"
	[ -z "$security" ] ||
		printf 'deb %s %s-security main\n' "$security" "$suite"
} >"$scratch/sources"

# To build modules, their headers are enough, without a kernel.
packages=dkms,openssl,gcc,libc6-dev,pkgconf,python3,linux-headers-amd64
[ -z "$kind" ] || packages=$packages,linux-image-amd64,initramfs-tools,systemd-sysv,udev,dbus,kmod,procps,openmpi-bin,libopenmpi-dev
rm -rf "$root.part"
mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
	--aptopt="$scratch/reach" --include="$packages" \
	"$suite" "$root.part" - <"$scratch/sources" >&2 ||
	die "mmdebstrap failed: its message is above"
rm -rf "$root.part"/var/cache/apt/archives "$root.part"/var/lib/apt/lists \
	"$root.part"/usr/share/doc "$root.part"/usr/share/locale

# The shell reads what the test types. It prints a line with the boot's number. It is
# the unit's main process, so that systemd starts no second one that reads as well.
add_shell() # root
{
	unit=$1/etc/systemd/system
	cat >"$unit/typed.service" <<'END'
[Unit]
Description=Shell of the test
After=dev-virtio\x2dports-skep.device
Wants=dev-virtio\x2dports-skep.device

[Service]
ExecStart=/bin/sh -c 'exec <>/dev/virtio-ports/skep >&0 2>&0; echo; echo @@up $$(cat /proc/sys/kernel/random/boot_id); exec /bin/sh'
Environment=HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
WorkingDirectory=/root
KillMode=process
Restart=always

[Install]
WantedBy=multi-user.target
END
	mkdir -p "$unit/multi-user.target.wants"
	ln -s ../typed.service "$unit/multi-user.target.wants/typed.service"
}
[ -z "$kind" ] || add_shell "$root.part"
mv "$root.part" "$root"
