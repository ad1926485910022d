#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs within the root of a Debian release: makes an update of that release's own
# kernel, with its own compiler. /opt/test keeps the kernel's source for the next time.
set -eu
cd /opt/home
apt-get update
apt-get install -y --no-install-recommends bc bison bzip2 cpio debian-archive-keyring \
	dpkg-dev flex gcc kmod libc6-dev libelf-dev libssl-dev make pahole patch \
	python3 xz-utils
release=$(basename "$(echo /boot/vmlinuz-*)")
kernel=$(dpkg-query -W -f '${Version}' "linux-image-${release#vmlinuz-}")
SKEP_BUILD=/opt/test/build XDG_CACHE_HOME=/opt/test/cache /opt/test/skep update build \
	/opt/test/links.patch --kernel "$kernel" --class any \
	--because 'each check stands on its own' -o /opt/test/links.skepup
