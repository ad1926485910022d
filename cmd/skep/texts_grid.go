// SPDX-License-Identifier: MIT

package main

import (
	"slices"

	"skep/internal/manual"
)

// gridTexts returns the texts of the commands for hub and nodes.
func gridTexts() map[string]text {
	return map[string]text{
		"up": {
			text: []string{"The hub listens on one TCP port, with TLS, and this machine becomes its first node. skep up stays in the foreground; it ends cleanly on Ctrl-C and SIGTERM. Nodes wait, and reconnect when the hub runs again. After SIGUSR1 it ends as soon as no program runs; a service then starts again.",
				"The hub's user can run any program on every node that joined. On Linux a program reaches only what the node's owner allows with --allow, --allow-write and --allow-network. On Windows nothing confines it.",
				"With --standby this machine copies a hub instead, until skep standby promote makes it the hub: skep-standby(1). A hub that has a standby asks it at each start whether it took over, and waits for its answer, unless --alone is given.",
				"The options that begin with --limit bound what each program on this machine may use. Those that begin with --quota bound what the hub stores."},
			examples: []manual.Entry{{Name: "skep up", Text: "hub and node, on port 4860 of all addresses"},
				{Name: "skep up --no-agent --advertise hub.example.org:4860", Text: "a hub alone; join commands have this address"},
				{Name: "skep up --slots 4 --limit-memory 2G --allow /srv/data", Text: "four workers at a time, each with 2 GiB and these files"}},
			files:       slices.Concat(hubFiles, agentFiles[1:]),
			environment: "SKEP_TOKEN " + stateNames,
			exit:        "0 1 2 4 75", see: "skep-join(1) skep-token(1) skep-nodes(1) skep-standby(1) skep-doctor(1)",
		},
		"join": {
			text: []string{"skep join connects to the hub's port and stays in the foreground. It listens on no port. The token of the first join names the hub's certificate authority, so no other hub can impersonate it. From then on the node has its own identity, and skep join without arguments is enough.",
				"The token is a secret, and a command line is visible to every user of the machine. So the join command that a hub prints passes it in SKEP_TOKEN. --token-file reads it, or the whole join command, from a file or standard input.",
				"Give --allow, --allow-write, --allow-network, --policy and the limits at each start. --policy says when programs may run here: skep-owner-policy(5).",
				"After SIGTERM or Ctrl-C the hub moves the movable programs that run here to other nodes, in at most 20 seconds, and gives its calls to them. A second signal ends it at once.",
				"After SIGUSR1 it ends as soon as no program runs here; a service then starts again."},
			examples: []manual.Entry{{Name: "skep join 192.0.2.7:4860 --token-file token", Text: "join for the first time"},
				{Name: "skep join", Text: "connect again"},
				{Name: "skep join --allow-write /srv/results --limit-cpu-time 10m", Text: "let programs write there, and end them after ten minutes of processor time"},
				{Name: "skep join --policy desk", Text: "work only while nobody uses this PC"}},
			files:       agentFiles,
			environment: "SKEP_TOKEN " + stateNames,
			exit:        "0 1 2 3 4 75", see: "skep-up(1) skep-token(1) skep-policy(1) skep-doctor(1)",
		},
		"token": {
			text:        []string{"A token works for as many machines as --uses says, until it expires. It is valid for this hub only."},
			examples:    []manual.Entry{{Name: "skep token --uses 200 --expires 72h", Text: "for a classroom"}, {Name: "skep token | ssh node skep join HOST:4860 --token-file -", Text: "send the join command to another machine"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3 4", see: "skep-join(1)",
		},
		"backup": {
			text: []string{"The backup has what nodes and operators trust the hub by: its certificate authority, tokens, the list of nodes, the ledger, and the audit log of kernel updates with the updates whose rolls are over. It is taken at one moment while the hub works. FILE is replaced when the backup is whole, and only its owner can read it.",
				"It is a tar archive that is not encrypted, and it has the hub's private keys: who can read it can act as this hub.",
				"Not in it are runs, their arguments and results, and rolls that are not over. Make a backup after nodes joined or were removed, and after a roll."},
			examples:    []manual.Entry{{Name: "skep backup hub.tar", Text: "of this user's hub"}, {Name: "sudo skep backup --state /var/lib/skep /root/hub.tar", Text: "of the service"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-restore(1) skep-up(1)",
		},
		"restore": {
			text: []string{"All of the backup is read, its sums are compared, and keys, tokens, nodes, ledger and audit log are opened as a hub opens them. Only then the state directory gets them; if anything is wrong, nothing changes. Root gives the files to the owner of the state directory.",
				"If the directory has the state of a hub already, that is an error. With --replace this state gets another name, which is printed. No hub may run there.",
				"Start the hub as before: nodes connect to it by themselves if it has the old address. Calls get higher numbers than before. What happened after the backup is not known to it: nodes that joined since then must join again, and nodes that were removed since then must be removed again. Nodes that saw more of the audit log than the backup has refuse kernel updates of this hub."},
			examples:    []manual.Entry{{Name: "skep restore hub.tar", Text: "on a new machine, before skep up"}, {Name: "sudo skep restore --state /var/lib/skep --replace hub.tar", Text: "for the service, which was stopped"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2", see: "skep-backup(1) skep-up(1)",
		},
		"nodes": {
			text: []string{"SUBSTRATE is what a node runs programs on: linux, bee-linux or bee-windows. CONFINED names the mechanism that keeps programs away from the owner's files. FREE is how many of its slots are free. KERNEL says what Skep changes in the node's kernel: updates that are applied, the engine of O2G, and lent cores.",
				"--drain gives the node no more work, and waits until what runs there has ended, at most as long as --wait says. Calls that have not begun there go to other nodes at once; with --move the others do so too, and begin anew. Programs, and calls that are bound to the node, stay. The node stays drained until --reopen, also over reboots and restarts of the hub.",
				"--remove ends the node's work and revokes its identity; its agent then ends."},
			examples:    []manual.Entry{{Name: "skep nodes --json", Text: "for programs"}, {Name: "skep nodes --drain pc7 --move", Text: "before a reboot of pc7"}, {Name: "skep nodes --remove pc7", Text: "remove pc7 permanently"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-up(1) skep-exec(1)",
		},
		"top": {
			text: []string{"skep top shows what skep page shows, as a table: the calls of the hub, its rolls of kernel updates, and for each node the slots in use, the calls and programs that run there, and what it did each second between two readings. FAILED/S are runs of calls that failed there. On a terminal each table replaces the last one. With --json each reading is one line that has everything.",
				"The first table comes after the first interval."},
			examples:    []manual.Entry{{Name: "skep top", Text: "each second"}, {Name: "skep top --count 1 --json", Text: "one reading, for a program"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-page(1) skep-nodes(1)",
		},
		"page": {
			text: []string{"The hub makes the page; skep page passes it to browsers on this machine, on 127.0.0.1, until Ctrl-C. It shows the nodes, sessions and calls of the hub, lent cores, kernel updates and their rolls. It can only be read, has no scripts, and loads nothing from elsewhere.",
				"The link has a secret, which is new each time: every user of this machine can reach the port, and nobody sees the page without the link. skep page works for the hub's user, who sees all, and for users with an account, who see their own sessions and calls. To read it elsewhere, forward the port: ssh -L 8080:127.0.0.1:PORT HUB.",
				"The link followed by metrics has the numbers of the page in the text format of Prometheus. A monitoring system needs a link that stays the same: --secret-file and --port."},
			examples: []manual.Entry{{Name: "skep page", Text: "on a free port"}, {Name: "skep page --port 8080", Text: "on this one"},
				{Name: "skep page --port 8080 --secret-file page.secret", Text: "always under the same link"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-top(1) skep-nodes(1) skep-update-rolls(1)",
		},
		"logs": {
			text:        []string{"Without SESSION it shows the latest run. SESSION is the number that skep run prints where it omits lines."},
			examples:    []manual.Entry{{Name: "skep logs --on node=pc7", Text: "what the workers of the last run wrote there"}},
			files:       agentFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-run(1)",
		},
		"calls": {
			text:        []string{"Without SESSION it lists the calls of all programs. SESSION is the session of a master, or how it begins. STATE is arriving while the hub receives the arguments, waiting, or running; NODE names the nodes that have the call, and RUN counts how often it was given to one. Calls are numbered by the hub, in the order in which it accepted them."},
			examples:    []manual.Entry{{Name: "skep calls", Text: "of all programs"}, {Name: "skep calls --json 3f2a", Text: "of one session, for a program"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-cancel(1) skep-ledger(1) skep-top(1) skep-runs(1)",
		},
		"cancel": {
			text: []string{"The master gets the error that the call was cancelled, and goes on; a worker that runs the call is ended. A call that has ended is not changed: its number is then an error.",
				"--session ends the calls that the session has at this moment. Its master may make others: skep runs --end ends a detached master."},
			examples:    []manual.Entry{{Name: "skep cancel 1796227421000000012", Text: "end one call"}, {Name: "skep cancel --session 3f2a", Text: "end the calls of a session"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-calls(1) skep-runs(1)",
		},
		"ledger": {
			text: []string{"STATE is queued when the hub accepted the call, leased when a node was given it, requeued when that node or its worker was lost, done, or failed. TEXT is the function, or why. An object of a program has the word object in place of a number, and is made, lost or ended; with --json methods name it. With CALL it shows the history of this call. The oldest entries come first.",
				"The ledger has up to 256 MiB of the last 90 days. It is written a little after the calls, so that they do not wait for the disk: if the machine of the hub stops, the newest entries may be missing. Calls and sessions are searched among the last 10000 entries."},
			examples:    []manual.Entry{{Name: "skep ledger --last 20", Text: "the last entries"}, {Name: "skep ledger 1796227421000000012", Text: "the history of a call"}, {Name: "skep ledger --session 3f2a --json", Text: "of a session, for a program"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-calls(1) skep-page(1)",
		},
		"exec": {
			text: []string{"The program must be a static Linux program for x86-64; Windows nodes run the same file under bee. Standard input, output and the exit code are passed on. With several nodes, each node gets the whole input, each line of output begins with the node's name, and the first exit code other than 0 is returned.",
				"The program waits for a slot of the node, and counts towards the user's share and slots; skep calls lists it, and skep cancel ends it. For a user with an account it cannot be movable, and takes no kernel updates.",
				"The program ends when skep exec is interrupted, when the node's agent ends, or when the hub ends. If only the connection of the node breaks, it goes on; skep exec waits for the node for as long as skep up --keep-nodes says. If the node's owner has set the same limit, the smaller one applies.",
				"With --movable the program runs under bee on one Linux node, also if the node could run it itself, and sees the same folders on every node: its working directory /job, /tmp and /dev/shm, which move with it. It leaves a node that is shut down. If the node is lost, so is the program.",
				"With --checkpoint the program is also saved from time to time. If its node is lost, another one that --on selects goes on from the last checkpoint. Output reaches this command when a later checkpoint, a move or the end of the program makes it final, so no byte comes twice or is missing. What else the program did outside of its folders since the checkpoint is done again."},
			examples: []manual.Entry{{Name: "skep exec --checkpoint 60 -- ./program >out", Text: "lose at most about a minute if a node is lost"}, {Name: "skep exec -- /bin/busybox echo hello", Text: "on the node with most free slots"},
				{Name: "skep exec --on os=windows -- ./program <in >out", Text: "on a Windows node"},
				{Name: "skep exec --on all --memory 2G -- ./program", Text: "on each node, with at most 2 GiB"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3 126 127 128+N 130 program", see: "skep-nodes(1) skep-run(1) bee(1)",
		},
		"move": {
			text: []string{"JOB is the number that skep exec --movable prints; without it the programs are listed. The hub asks the target whether it can take the program: bee, the features of its processor, memory. Then the source saves the program and holds it, and when the hub has all of it, the program goes on at the target. Standard streams, files and the exit code go on. If anything fails before, the program goes on where it was, and the reason is printed.",
				"Without NODE the hub chooses the node with the most free slots among those that skep exec --on selected. Its child processes move with it. A program cannot be moved while it has sockets, shared mappings or locks of files: see SNAPSHOTS in bee(1)."},
			examples:    []manual.Entry{{Name: "skep move", Text: "list movable programs"}, {Name: "skep move 1 node2", Text: "move job 1 to node2"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-exec(1) skep-checkpoint(1) skep-nodes(1) bee(1)",
		},
		"checkpoint": {
			text:        []string{"The program must have been started with skep exec --checkpoint. The command returns when the hub has the checkpoint; output until then reaches skep exec."},
			examples:    []manual.Entry{{Name: "skep checkpoint 1", Text: "save job 1 now"}},
			files:       hubFiles,
			environment: stateNames,
			exit:        "0 1 2 3", see: "skep-exec(1) skep-move(1)",
		},
		"run": {
			text: []string{"A master program calls functions of worker programs, NAME.rex, which run on the nodes. skep run looks for them in the master's folder and in the folders of --modules. If a node fails, its calls are run again elsewhere.",
				"If no hub runs, skep run starts a hub and a node for this run; --slots and --allow apply to that node. On a terminal one line per node is shown below the program's output.",
				"A call that exceeds a limit fails, and is not run again.",
				"With --detach the command prints the run's name and returns. The master goes on without the terminal, with no standard input, until it ends, until its lease is over, or until skep runs --end. Its output is kept, the first MiB and the last 8 MiB of it."},
			examples: []manual.Entry{{Name: "skep run -- ./master", Text: "run it; its exit code is passed on"}, {Name: "skep run --modules lib --wall-time 10m -- ./master 40", Text: "with workers in lib, and at most ten minutes per call"},
				{Name: "skep run --detach --lease 48h -- ./master", Text: "let it run for two days at most, also after a logout"}},
			files:       slices.Concat(hubFiles, []manual.Entry{{Name: "NAME.rex", Text: "a worker program, made by skep gen --build"}}),
			environment: "SKEP_SOCKET SKEP_STREAM SKEP_ERRORS OMRPC_DEBUG USER LOGNAME " + stateNames,
			exit:        "0 1 2 3 4 126 127 128+N 130 program", see: "skep-attach(1) skep-runs(1) skep-gen(1) skep-logs(1) skep-idl(5) skep-hosts(5)",
		},
		"runs": {
			text: []string{"STATE is running, exit N with the exit code of the master, or lost if the process of skep that held the run was killed. The records and the output of the last 64 runs that do not run are kept.",
				"--end sends the master SIGTERM, and SIGKILL after 5 seconds; it returns when the run has ended."},
			examples:    []manual.Entry{{Name: "skep runs --json", Text: "for programs, with times, folders and reasons"}, {Name: "skep runs --end 3f2a9c01", Text: "end a run"}},
			files:       append(slices.Clone(hubFiles), manual.Entry{Name: "detached", Text: "in the state directory: records and output of detached runs"}),
			environment: stateNames,
			exit:        "0 1 2 3 130", see: "skep-run(1) skep-attach(1)",
		},
		"attach": {
			text:        []string{"Without ID it shows the latest run. The output of the master is shown from its beginning, on standard output, and its exit code is passed on. Ctrl-C ends skep attach; the run goes on."},
			examples:    []manual.Entry{{Name: "skep attach 3f2a9c01", Text: "show the output of this run"}},
			files:       append(slices.Clone(hubFiles), manual.Entry{Name: "detached", Text: "in the state directory: records and output of detached runs"}),
			environment: stateNames,
			exit:        "0 1 2 3 128+N 130 program", see: "skep-run(1) skep-runs(1)",
		},
		"gen": {
			text: []string{"--build compiles C or Fortran files and their interface to a worker program, one static file for all nodes. It is named after the module unless -o gives another name. Options for the compiler follow --.",
				"--master compiles a program that calls remote functions. Without an option, skep gen writes only the C stub. --manifest prints the functions that a file offers."},
			examples: []manual.Entry{{Name: "skep gen --build hello.idl hello.c", Text: "makes hello.rex"},
				{Name: "skep gen --master master.c -- -lm", Text: "makes master"},
				{Name: "skep gen --manifest hello.rex", Text: "what hello.rex offers"}},
			files:       []manual.Entry{{Name: "FILE.idl", Text: "the interface; skep-idl(5) describes the language"}, {Name: "NAME.rex", Text: "a worker program"}},
			environment: "SKEP_BUILD PATH TMPDIR",
			exit:        "0 1 2", see: "skep-run(1) skep-idl(5) skep-manifest(5) omrpc-cc(1)",
		},
	}
}

// programTexts returns the texts of the commands for programs.
func programTexts() map[string]text {
	return map[string]text{
		"mpirun": {
			text: []string{"The program is neither recompiled nor relinked. skep mpirun starts it with the launcher of an installed MPICH or Open MPI that uses libfabric, and sets the variables with which libfabric uses O2G. Without --mpi it searches for an MPI in the program's folder, in the active Python environment and in PATH.",
				"Options of the MPI's launcher are passed on to it. If -- stands before the program, so is any other option that skep does not know, with its values. A colon separates the parts of a job with several programs.",
				"The last line on standard error counts the messages of all ranks, and says which engine matched them. In a job step of Slurm, each task runs the program."},
			examples: []manual.Entry{{Name: "skep mpirun -n 4 -- ./app", Text: "four ranks on this machine"},
				{Name: "skep mpirun --hosts a,b -n 8 -- ./app", Text: "on two hosts, reached by ssh"},
				{Name: "skep mpirun -n 4 --bind-to core -- ./app", Text: "with an option of the MPI's launcher"},
				{Name: "skep mpirun -n 1 ./coupler : -n 4 ./model", Text: "one job of two programs"}},
			files:       []manual.Entry{{Name: "libo2g-fi.so", Text: "the provider for libfabric, in skep's folder lib"}, {Name: "/dev/o2g", Text: "the kernel engine"}, {Name: "o2g.key", Text: "in the state directory: the key of jobs under Slurm"}},
			environment: "VIRTUAL_ENV PATH LD_LIBRARY_PATH SLURM_JOB_ID SLURM_STEP_ID SLURM_PROCID SLURM_STEP_NUM_TASKS " + stateNames,
			exit:        "0 1 2 126 127 128+N 130 program", see: "skep-o2g(1) fi_o2g(7) o2g(4) skep-environment(7)",
		},
		"o2g": {
			text: []string{"Each endpoint of a program that you started writes its counters to a file; skep o2g status reads these files. --json prints all counters.",
				"skep o2g top reads them again and again, and prints what each endpoint did per second: messages and bytes both ways, messages that came before their receive (UNEXPECTED), and sends that waited for credit (STALLS). LINKS are open connections, UNMATCHED the messages that no receive has matched yet, RESENT the TCP segments that were sent again since the endpoint was opened, IN KERNEL the messages that the kernel engine matched. The kernel engine's connections belong to its module, so LINKS and RESENT are not known there. An endpoint that ended since the last table is shown once more. On a terminal each table replaces the last one. With --json each reading is one line."},
			examples:    []manual.Entry{{Name: "skep o2g status", Text: "one line per endpoint"}, {Name: "skep o2g top", Text: "their traffic, each second"}, {Name: "skep o2g top --interval 5 --count 12 --json", Text: "a minute of it, for a program"}},
			files:       []manual.Entry{{Name: "$XDG_RUNTIME_DIR/skep-o2g", Text: "the files; /dev/shm/skep-o2g-UID if the variable is not set"}},
			environment: "XDG_RUNTIME_DIR",
			exit:        "0 1 2", see: "skep-mpirun(1) fi_o2g(7)",
		},
	}
}
