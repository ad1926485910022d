#!/bin/sh
# SPDX-License-Identifier: MIT
# Whether root can make a control group here; run it in a mount namespace of its own.
set -eu
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/skep-probe-$$
mkdir "$group"
rmdir "$group"
