// SPDX-License-Identifier: MIT

package main

import "skep/internal/manual"

// gangTexts returns the texts of the commands for gangs.
func gangTexts() map[string]text {
	return map[string]text{
		"gang": {
			text:     []string{"A gang is a control group: all processes of a job on this machine. Gangs take turns of some seconds, in which one of them has the processors and the memory for itself. So jobs share a machine that together do not fit into its memory, and threads or ranks that wait for one another run at the same time."},
			examples: []manual.Entry{{Name: "skep gang run --period 30s -- ./a : ./b", Text: "two programs take turns"}},
			exit:     "0 1 2 4", see: "skep-gang-run(1)",
		},
		"gang run": {
			text: []string{"Each program gets a control group, and so do all processes that it starts. It is started at its first turn. Only the first one reads standard input. --cgroup names a group that has processes already; gangs of this kind come first. The groups must be of version 2. A group that skep itself is in, that is frozen already or is within another gang is refused.",
				"At the end of a turn the kernel's freezer stops all processes of the gang. The next one runs when all others have stopped, or after 5 seconds if one cannot; then the log says late. A gang without processes has ended. The last one runs on without turns, and skep ends with it.",
				"--paging is for gangs that do not fit into the memory together. It needs swap, Linux 5.19, the controller memory for each group, and root for adaptive. selective: the kernel takes pages from gangs that are stopped before those of the gang that runs (memory.low). aggressive: after a turn so much of the gang that has stopped is paged out at once as the next one needs (memory.reclaim). adaptive: the pages that a gang had when it stopped are paged in together before it runs again. all: the three together.",
				"SIGINT and SIGTERM end the programs: they get SIGTERM, and SIGKILL 5 seconds later. Groups of --cgroup go on. However skep is ended, also by SIGKILL, a second process, skep gang guard, lets those groups go on and ends the programs. If that one is killed, skep ends everything itself."},
			examples: []manual.Entry{{Name: "skep gang run --period 30s -- ./a 1000 : ./b", Text: "two programs, a colon between them"},
				{Name: "sudo skep gang run --cgroup /sys/fs/cgroup/job7 --cgroup /sys/fs/cgroup/job8", Text: "jobs of a batch system"},
				{Name: "sudo skep gang run --period 2m --paging all --cgroup /sys/fs/cgroup/job7 --cgroup /sys/fs/cgroup/job8", Text: "jobs that together need more than the memory"},
				{Name: "systemd-run --user --scope -p Delegate=yes skep gang run -- ./a : ./b", Text: "as a user who may not make control groups elsewhere"}},
			files:       []manual.Entry{{Name: "skep-gang-PID-N", Text: "the control group of program N, below that of skep"}, {Name: "FILE", Text: "of --log: when a turn began, its gang, the seconds until the gang before it had stopped (stop) and until this one ran (prepare), and the bytes that were paged out and in meanwhile"}},
			environment: "PATH",
			exit:        "0 1 2 4 126 127 128+N 130 program", see: "skep-gang(1) skep-update-hold(1)",
		},
	}
}
