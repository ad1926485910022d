// SPDX-License-Identifier: MIT

package manual

import "slices"

// A Variable is an environment variable that one of our programs reads. Help, manual pages
// and docs/environment.md are made from this description.
type Variable struct {
	Name    string
	Readers string // pages of the programs that read it
	Text    string
}

// A Group holds the variables under one heading of the page of all variables.
type Group struct {
	Heading, Text string
	Variables     []Variable
}

// Groups returns all variables, in the order of the page.
func Groups() []Group {
	return []Group{
		{"The command skep", "", skepVariables},
		{"Remote calls", "skep sets SKEP_SOCKET, SKEP_STREAM, and in skep run SKEP_STATE for the programs that it starts.", callVariables},
		{"libo2g and its libfabric provider", "Options of skep mpirun take precedence over these. A variable of the provider (FI_O2G) takes precedence over that of the library (SKEP_O2G) with the same ending. Sizes may end in K, M or G. An invalid value is refused, with a line on standard error.", o2gVariables},
		{"Programs on lent cores", "skep part run gives an OpenMP or Go program one thread for each core, unless one of these says otherwise.", partVariables},
		{"Other variables", "", otherVariables},
	}
}

var skepVariables = []Variable{
	{"SKEP_STATE", "skep(1)", "the state directory if --state is not given"},
	{"SKEP_TOKEN", "skep-join(1)", "the token of the first join; unlike a command line, other users cannot see it"},
	{"SKEP_BUILD", "skep(1)", "the build folder; by default the one that contains skep, else that of the source tree around the working directory"},
	{"SKEP_ACCEL", "skep-lab(1)", "kvm or tcg: how QEMU runs the machines of the lab; by default kvm if a kernel boots with it on this computer"},
}

var callVariables = []Variable{
	{"SKEP_SOCKET", "skep-run(1)", "the hub's socket for a master program"},
	{"SKEP_KEEP", "skep-run(1)", "in a detached master program, set by skep: the folder for arguments of open calls that exceed 256 MiB in total"},
	{"SKEP_KEEP_RUNS", "skep-run(1)", "in a master program, set by skep: for so many seconds it looks for another hub if its hub is killed, as long as that would keep its run; by default 60"},
	{"SKEP_PROGRAM", "skep-run(1)", "in a Python or OmniRPC program that was started without skep run: the program skep to start; by default the one in PATH. In a worker, set by the agent: the program that starts MPI jobs"},
	{"SKEP_PYTHON_TRIED", "skep-run(1)", "on a node, set by the Python package itself: the Pythons that do not fit a call"},
	{"SKEP_STREAM", "skep-run(1)", "the descriptor on which a worker program gets its calls"},
	{"SKEP_ERRORS", "skep-run(1)", "in a master program that uses the functions of OmniRPC: exit, the default, ends the program when a call fails; return makes the call return its code"},
	{"OMRPC_RSH", "skep-run(1)", "the program that starts agents on the hosts of a host file; by default ssh"},
	{"SKEP_QSUB", "skep-run(1)", "the command that submits jobs for hosts with SGE or PBS in a host file, with options of the site such as a queue; by default qsub"},
	{"OMRPC_REG_PATH", "skep-run(1)", "the folder of the worker programs that omrpc-register registered; by default .omrpc_registry in the home directory"},
	{"OMRPC_DEBUG", "skep-run(1)", "in a master program that uses the functions of OmniRPC: if set, OmniRPC's debug flag is on"},
}

var o2gVariables = []Variable{
	{"SKEP_O2G_SECRET", "fi_o2g(7)", "the secret of a job: 64 hexadecimal digits, the same for all its processes"},
	{"SKEP_O2G_IFACE", "fi_o2g(7)", "the network interface, address or network to listen on; by default the first address that others can reach"},
	{"SKEP_O2G_PORTS", "fi_o2g(7)", "the TCP ports to listen on, FIRST-LAST; by default any"},
	{"SKEP_O2G_ENGINE", "fi_o2g(7)", "what matches messages: user, kernel, or auto, the default: the kernel if its module is loaded"},
	{"SKEP_O2G_ENCRYPT", "fi_o2g(7)", "yes: all messages between processes are encrypted, and only with processes for which it is set; by default no"},
	{"SKEP_O2G_CREDIT", "fi_o2g(7)", "the bytes that each peer may send without permission; by default 8M"},
	{"SKEP_O2G_UNEXPECTED", "fi_o2g(7)", "the most bytes of unexpected messages that are buffered; by default a sixteenth of the available memory, from 512M to 4G"},
	{"SKEP_O2G_OPERATIONS", "fi_o2g(7)", "the most operations in flight on an endpoint; by default 1048576"},
	{"SKEP_O2G_CONNECT_MS", "fi_o2g(7)", "how long a connection to a peer may take, 100 to 600000 milliseconds; by default 20000"},
	{"SKEP_O2G_NAP_US", "fi_o2g(7)", "the longest nap of a waiting program in microseconds, by default 2000; a program that uses the provider naps only if this or FI_O2G_NAP_US is set"},
	{"SKEP_O2G_LOG", "fi_o2g(7)", "0: nothing on standard error; 1, the default: warnings; 2: counters at the end too"},
	{"SKEP_O2G_TRACE", "fi_o2g(7)", "a folder, in which each endpoint writes a file of JSON trace events with all its messages"},
	{"SKEP_O2G_REPORT", "fi_o2g(7)", "where skep mpirun listens for the counters of an endpoint; it sets this variable"},
	{"FI_O2G_IFACE", "fi_o2g(7)", "as SKEP_O2G_IFACE"},
	{"FI_O2G_PORTS", "fi_o2g(7)", "as SKEP_O2G_PORTS"},
	{"FI_O2G_ENGINE", "fi_o2g(7)", "as SKEP_O2G_ENGINE"},
	{"FI_O2G_CREDIT", "fi_o2g(7)", "as SKEP_O2G_CREDIT"},
	{"FI_O2G_UNEXPECTED", "fi_o2g(7)", "as SKEP_O2G_UNEXPECTED"},
	{"FI_O2G_OPERATIONS", "fi_o2g(7)", "as SKEP_O2G_OPERATIONS"},
	{"FI_O2G_NAP_US", "fi_o2g(7)", "as SKEP_O2G_NAP_US"},
	{"FI_O2G_LINGER_MS", "fi_o2g(7)", "how long the close of an endpoint waits for slow peers, in milliseconds; by default 10000"},
	{"FI_O2G_RMA", "fi_o2g(7)", "yes, the default: remote memory access and atomic access are offered; no: they are not"},
}

var partVariables = []Variable{
	{"OMP_NUM_THREADS", "skep-part-run(1)", "if set, skep part run does not set OMP_THREAD_LIMIT"},
	{"OMP_THREAD_LIMIT", "skep-part-run(1)", "if set, it is passed on unchanged"},
	{"OMP_WAIT_POLICY", "skep-part-run(1)", "if set, skep part run does not choose how threads of OpenMP wait"},
	{"GOMP_SPINCOUNT", "skep-part-run(1)", "the same, for GNU OpenMP"},
	{"GOMAXPROCS", "skep-part-run(1)", "if set, it is passed on unchanged"},
}

var otherVariables = []Variable{
	{"XDG_STATE_HOME", "skep(1)", "the state directory is skep below this folder; by default below ~/.local/state"},
	{"LOCALAPPDATA", "skep(1)", "on Windows: the state directory is skep below this folder"},
	{"XDG_CACHE_HOME", "skep-update-build(1)", "kernel packages and sources are kept in skep below this folder; by default below ~/.cache"},
	{"XDG_CONFIG_HOME", "skep-service(1)", "units of a user's services are in systemd/user below this folder; by default below ~/.config"},
	{"XDG_RUNTIME_DIR", "skep-o2g(1)", "endpoints of O2G write their counters to skep-o2g below this folder, and skep part run its ledger to skep below it"},
	{"HOME", "skep(1)", "the home directory"},
	{"NOTIFY_SOCKET", "skep-service(1)", "systemd sets it: the socket to which skep up and skep join report their status; it is removed when it is read"},
	{"WATCHDOG_USEC", "skep-service(1)", "systemd sets it: the time within which it expects a watchdog message"},
	{"WATCHDOG_PID", "skep-service(1)", "systemd sets it: the process that sends watchdog messages"},
	{"JOURNAL_STREAM", "skep-service(1)", "systemd sets it: if standard error is this stream, lines have a priority and no time"},
	{"PATH", "skep(1)", "where programs are searched: the MPI of skep mpirun, compilers, QEMU, and the program of skep part run"},
	{"USERPROFILE", "skep-bench(1)", "on Windows: the home directory; a report contains neither it nor the names in the next three"},
	{"COMPUTERNAME", "skep-bench(1)", "on Windows: the name of the computer"},
	{"USERDOMAIN", "skep-bench(1)", "on Windows: the name of the user's domain"},
	{"USERDNSDOMAIN", "skep-bench(1)", "on Windows: the same, as in the domain name system"},
	{"PROCESSOR_IDENTIFIER", "skep-bench(1)", "on Windows: the processor's model, which a report names"},
	{"NUMBER_OF_PROCESSORS", "skep-bench(1)", "on Windows: the Windows kit names it in its result"},
	{"TMPDIR", "skep(1)", "the folder for temporary files"},
	{"TEMP", "skep-mpirun(1)", "the same for the launcher of Open MPI, if TMPDIR is not set"},
	{"TMP", "skep-mpirun(1)", "the same, if neither is set"},
	{"SHELL", "skep-lab(1)", "the shell that skep lab up and skep lab shell open"},
	{"TERM", "skep(1)", "progress is not drawn if it is dumb; it is passed on to the shells of the lab"},
	{"USER", "skep-run(1)", "in a master program that uses the functions of OmniRPC: the user's name"},
	{"LOGNAME", "skep-run(1)", "the same, if USER is not set"},
	{"USERNAME", "bee(1)", "on Windows: part of the name of the table of file locks that the processes of one user share"},
	{"VIRTUAL_ENV", "skep-mpirun(1)", "the active Python environment, in which an MPI is searched first"},
	{"LD_LIBRARY_PATH", "skep-mpirun(1)", "where the libraries of an MPI program are searched"},
	{"SLURM_JOB_ID", "skep-mpirun(1)", "with the next three: skep mpirun is a task of a step of Slurm"},
	{"SLURM_STEP_ID", "skep-mpirun(1)", "the number of the step"},
	{"SLURM_PROCID", "skep-mpirun(1)", "the number of the task"},
	{"SLURM_STEP_NUM_TASKS", "skep-mpirun(1)", "the number of tasks"},
	{"SLURM_JOB_COMMENT", "skep-update-hold(1)", "the prolog in examples/slurm holds the update that this comment of a job names"},
	{"SLURMD_NODENAME", "skep-update-hold(1)", "the node that this prolog names if it sends a job away"},
	{"SKEP_SLURM_SLICE", "skep-update-hold(1)", "the control group in which this prolog and its epilog find slurmstepd's scope, with the control groups of jobs (`/sys/fs/cgroup/system.slice`)"},
	{"SKEP_SLURM_WAIT", "skep-update-hold(1)", "how many seconds this prolog waits after it cancelled a job; by default 5"},
}

// Environment returns the entries of the named variables.
func Environment(names ...string) []Entry {
	var entries []Entry
	for _, name := range names {
		for _, g := range Groups() {
			if at := slices.IndexFunc(g.Variables, func(v Variable) bool { return v.Name == name }); at >= 0 {
				entries = append(entries, Entry{name, g.Variables[at].Text})
			}
		}
	}
	return entries
}
