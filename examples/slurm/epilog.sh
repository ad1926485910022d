#!/bin/sh
# SPDX-License-Identifier: MIT
# Epilog of Slurm: ends what prolog.sh began for a job that never had a process
# on this node. For any other job the update has ended with the job's cgroup.
set -eu

slice=${SKEP_SLURM_SLICE:-/sys/fs/cgroup/system.slice}

case ${SLURM_JOB_COMMENT-} in
skep-update=*) ;;
*) exit 0 ;;
esac

# A Slurm of which a machine may run several, as Debian's, puts the node's name first.
scope=$slice/slurmstepd.scope
[ ! -d "$slice/${SLURMD_NODENAME-}_slurmstepd.scope" ] ||
	scope=$slice/${SLURMD_NODENAME-}_slurmstepd.scope

systemctl stop "skep-update-$SLURM_JOB_ID" 2>/dev/null || :
rmdir "$scope/job_$SLURM_JOB_ID" 2>/dev/null || :
