// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"strings"

	"skep/grid/hosts"
	"skep/internal/cli"
)

// hostCommand returns the end of a host's script, which starts its agents. With a batch system,
// an agent for each worker, because the system may confine each to processors of its own; one
// that ends ends no other.
func hostCommand(h *hosts.Host, skep string) string {
	name := quoteShell(h.Name)
	switch h.Batch {
	case "":
		return fmt.Sprintf(`exec %s join "$hub" --until-eof --name %s --slots %d`, skep, name, h.Slots)
	case "slurm":
		return slurmCommand(h.Slots, skep, name)
	case "sge":
		return spoolCommand(skep, name, 1, fmt.Sprintf("%s -terse -w e -notify -j y -t 1-%d", qsubWords(), h.Slots), `qstat -j "${jobs%%.*}"`, `${jobs%%.*}`)
	}
	return spoolCommand(skep, name, h.Slots, qsubWords()+" -j oe", `[ "$(qstat $jobs)" ]`, "$jobs")
}

// slurmCommand returns a command with Slurm's own way to carry streams: tasks get standard input
// from srun. A job that waits in the queue does not see it end, so that is cancelled by its name.
func slurmCommand(tasks int, skep, name string) string {
	return fmt.Sprintf(`{ cat; scancel --quiet --user="$(id -un)" --state=PENDING --name="skep-$$"; } |
srun --job-name="skep-$$" --ntasks=%d --export=ALL --input=all --wait=0 --kill-on-bad-exit=0 \
	sh -c 'exec "$0" join "$1" --until-eof --name "$2-$SLURM_PROCID" --slots 1' %s "$hub" %s`, tasks, skep, name)
}

// qsubWords returns the command that submits jobs to SGE and PBS.
func qsubWords() string {
	words := strings.Fields(os.Getenv("SKEP_QSUB"))
	if len(words) == 0 {
		words = []string{"qsub"}
	}
	for i, w := range words {
		words[i] = quoteShell(w)
	}
	return strings.Join(words, " ")
}

// spoolCommand returns a command for systems whose jobs are scripts in a spool, where each user
// may read a job's script and variables. So the token is in a folder of the home directory, which
// the nodes of such clusters share. An SGE job is an array; PBS gets a job for each task, because
// its kinds differ in arrays and have none of one task.
//
// The jobs are deleted as soon as standard input ends: agents then get SIGUSR2 of SGE or SIGTERM of
// PBS, some time before SIGKILL, and end in order. What kills this shell, too, leaves agents, and
// jobs that find no hub when their turn comes: both end, and then remove the folder.
func spoolCommand(skep, name string, count int, qsub, alive, jobs string) string {
	return fmt.Sprintf(`folder=$(mktemp -d "$HOME/.skep-job-XXXXXX") || exit 1
jobs=
trap '[ -z "$jobs" ] || qdel %[1]s >/dev/null 2>&1; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
printf '%%s\n' "$SKEP_TOKEN" "$hub" >"$folder/run" && : >"$folder/log" || exit 1
unset SKEP_TOKEN
task=0
while [ $task -lt %[2]d ]; do
	job=$(%[3]s -N "skep-$$" -S /bin/sh -o /dev/null -v PATH,folder="$folder",task=$task <<'END'
#!/bin/sh
{ read -r SKEP_TOKEN && read -r hub; } <"$folder/run" && exec >>"$folder/log" 2>&1 || exit 1
export SKEP_TOKEN
%[4]s join "$hub" --until-lost --name %[5]s-$((task + ${SGE_TASK_ID:-1} - 1)) --slots 1 &
agent=$!
trap 'kill $agent' TERM USR2
wait $agent
code=$?
wait $agent
[ $code != %[6]d ] || rm -rf "$folder"
END
	) || exit 1
	jobs="$jobs $job" task=$((task + 1))
done
jobs=${jobs# }
echo "submitted job $jobs"
exec 3<&0
cat <&3 >/dev/null &
reader=$!
{ while %[7]s; do sleep 2; done; kill $reader; } >/dev/null 2>&1 3<&- &
wait $reader 2>/dev/null
kill $! 2>/dev/null
cat "$folder/log"`, jobs, count, qsub, skep, name, cli.Unreachable, alive)
}
