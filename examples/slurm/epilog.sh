#!/bin/sh
# SPDX-License-Identifier: MIT
# Epilog of Slurm: ends what prolog.sh began for a job that never had a process
# on this node. For any other job the update has ended with the job's cgroup.
set -eu

scope=${SKEP_SLURM_SCOPE:-/sys/fs/cgroup/system.slice/slurmstepd.scope}

case ${SLURM_JOB_COMMENT-} in
skep-update=*) ;;
*) exit 0 ;;
esac

systemctl stop "skep-update-$SLURM_JOB_ID" 2>/dev/null || :
rmdir "$scope/job_$SLURM_JOB_ID" 2>/dev/null || :
