#!/bin/sh
# SPDX-License-Identifier: MIT
# Prolog of Slurm: puts the kernel update that a job asks for in force for the
# job's cgroup on this node, before a process is in it:
#
#   sbatch --comment=skep-update=NAME ...
#
# The update ends with the cgroup, whatever ends the job. slurmd runs this file
# as root; a result other than 0 would drain the node, so a job whose update
# cannot be in force is held instead, and never runs without it.
set -eu

slice=${SKEP_SLURM_SLICE:-/sys/fs/cgroup/system.slice}

case ${SLURM_JOB_COMMENT-} in
skep-update=*) name=${SLURM_JOB_COMMENT#skep-update=} ;;
*) exit 0 ;;
esac

# A Slurm of which a machine may run several, as Debian's, puts the node's name first.
scope=$slice/slurmstepd.scope
[ ! -d "$slice/${SLURMD_NODENAME-}_slurmstepd.scope" ] ||
	scope=$slice/${SLURMD_NODENAME-}_slurmstepd.scope
job=$scope/job_$SLURM_JOB_ID
unit=skep-update-$SLURM_JOB_ID

# slurmstepd takes a job's cgroup that is there already. The scope is slurmd's own: if it
# is not there, no process of the job would be in it. systemd-run returns when skep says
# that the update is in force.
if { [ -d "$job" ] || mkdir "$job"; } && systemd-run --quiet --collect --unit "$unit" \
	--property Type=notify skep update hold --cgroup "$job" "$name"; then
	exit 0
fi
rmdir "$job" 2>/dev/null || :
echo "job $SLURM_JOB_ID is held or cancelled: the update $name is not in force" \
	"on ${SLURMD_NODENAME-this node}" >&2
# Slurm holds batch jobs only. A job of srun or salloc is cancelled. slurmd lets no step
# begin of a job that it knows to be cancelled, so this waits until it was told.
scontrol requeuehold "$SLURM_JOB_ID" && exit 0
scancel "$SLURM_JOB_ID"
sleep "${SKEP_SLURM_WAIT:-5}"
