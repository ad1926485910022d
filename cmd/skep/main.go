// SPDX-License-Identifier: MIT

// Skep is the command line program. It runs as hub and as agent, and sends requests to a
// hub, a kernel module or a machine of the lab. Each command is in a file of its own, which
// defines its options and calls the packages of its room.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"skep/internal/cli"
	"skep/internal/service"
)

// A runner is one invocation of a command. Its fields hold the options.
type runner interface {
	options(f *cli.Flags)
	run(ctx context.Context, f *cli.Flags, words []string) error
}

// A command is one word after skep, or a subcommand's words.
type command struct {
	name    string
	usage   string // after "skep "
	summary string
	runner  runner
	program bool      // the words are a program with its own options
	words   []command // subcommands; if there are any, the next word selects one
	hidden  bool      // started only by skep itself or by our scripts
}

// commands, in the order in which help lists them.
func commands() []command {
	return []command{
		{name: "up", usage: "up [--listen HOST:PORT] [--standby HOST:PORT] [--state DIR] [--no-agent] [--slots N] [--label KEY=VALUE] [--allow PATH]", runner: &up{},
			summary: "start the hub and a node on this machine; prints a join command"},
		{name: "join", usage: "join HOST:PORT --token TOKEN | --token-file FILE [--state DIR] [--slots N] [--name NAME] [--label KEY=VALUE] [--allow PATH]", runner: &join{},
			summary: "make this machine a node of a hub"},
		{name: "token", usage: "token [--uses N] [--expires TIME] [--state DIR]", runner: &token{},
			summary: "print another join command"},
		{name: "user", usage: "user add | join | list | set | token | remove", runner: &wordless{words: userWords()}, words: userWords(),
			summary: "who submits to a hub, from other machines too, and what each may have"},
		{name: "standby", usage: "standby token | show | promote | forget", runner: &wordless{words: standbyWords()}, words: standbyWords(),
			summary: "a second machine that has what the hub has, and takes over"},
		{name: "backup", usage: "backup [--state DIR] FILE", runner: &backup{},
			summary: "write the state of the hub that runs here to a file"},
		{name: "restore", usage: "restore [--replace] [--state DIR] FILE", runner: &restore{},
			summary: "make the state of a hub from a backup, before it is started"},
		{name: "nodes", usage: "nodes [--state DIR] [--json | --drain NAME [--wait TIME] | --reopen NAME | --remove NAME]", runner: &nodes{},
			summary: "list the nodes and their capabilities"},
		{name: "top", usage: "top [--interval SECONDS] [--count N] [--json] [--state DIR]", runner: &top{},
			summary: "show again and again what the nodes and calls of a hub do"},
		{name: "page", usage: "page [--port N] [--secret-file FILE] [--state DIR]", runner: &page{},
			summary: "serve the hub's page to a browser on this machine; prints a link"},
		{name: "policy", usage: "policy check | why", runner: &wordless{words: policyWords()}, words: policyWords(),
			summary: "when remote programs may run on this machine, and why they do or do not"},
		{name: "run", usage: "run [--modules DIR] [--on SELECTOR] [--priority N] [--state DIR] [--slots N] [--detach] -- ./master [ARGS]", runner: &run{}, program: true,
			summary: "run a master program; its calls go to the nodes"},
		{name: "runs", usage: "runs [--json] [--end ID | --forget ID] [--state DIR]", runner: &runs{},
			summary: "list detached runs, or end one"},
		{name: "attach", usage: "attach [--state DIR] [ID]", runner: &attach{},
			summary: "show the output of a detached run, and wait for its end"},
		{name: "calls", usage: "calls [--json] [--state DIR] [SESSION]", runner: &calls{},
			summary: "list the calls that have not ended"},
		{name: "cancel", usage: "cancel [--state DIR] CALL | --session SESSION", runner: &cancel{},
			summary: "end a call, or all calls of a session, with an error for its master"},
		{name: "ledger", usage: "ledger [--last N] [--session SESSION] [--json] [--state DIR] [CALL]", runner: &ledger{},
			summary: "show what the hub has stored of calls: accepted, leased, ended, and why"},
		{name: "exec", usage: "exec [--on SELECTOR] [--movable] [--update NAME] [--state DIR] -- ./program [ARGS]", runner: &execute{}, program: true,
			summary: "run a static Linux program on nodes, with the streams of this command"},
		{name: "move", usage: "move [--json] [--state DIR] [JOB [NODE]]", runner: &moveProgram{},
			summary: "move a running program of skep exec --movable to another node, or list these programs"},
		{name: "checkpoint", usage: "checkpoint [--state DIR] JOB", runner: &checkpoint{},
			summary: "save a running program of skep exec --checkpoint now"},
		{name: "logs", usage: "logs [--on SELECTOR] [--state DIR] [SESSION]", runner: &logs{},
			summary: "show the output of a run's workers that the nodes kept"},
		{name: "mpirun", usage: "mpirun [-n N] [--hosts A,B] [--update NAME] [--no-shm] [--tcp] [--mpi PREFIX] -- ./app [ARGS]", runner: &mpirun{}, program: true,
			summary: "run an unmodified MPI program over O2G"},
		{name: "o2g", usage: "o2g status [--json] | o2g top [--interval SECONDS] [--count N] [--json]", runner: &o2g{},
			summary: "list your open O2G endpoints and their traffic"},
		{name: "gen", usage: "gen [-o DIR] FILE.idl | gen --build FILE.idl [-o NAME.rex] FILES [-- OPTIONS] | gen --master [-o NAME] FILES [-- OPTIONS] | gen --manifest FILE", runner: &gen{},
			summary: "build a worker program from C functions and their interface"},
		{name: "lab", usage: "lab up | shell | run | list | down", runner: &wordless{labWords(), "the lab boots Linux kernels on QEMU and runs on Linux alone: use skep lab on a Linux machine"}, program: true, words: labWords(),
			summary: "throw-away virtual machines, for kernels that may crash"},
		{name: "part", usage: "part create | list | run | linux | console | stats | release | allow", runner: &wordless{partWords(), "only Linux lends cores: use skep part on a Linux machine"}, program: true, words: partWords(),
			summary: "lend cores and memory of this Linux to a compute kernel"},
		{name: "gang", usage: "gang run", runner: &wordless{gangWords(), "only Linux can stop a control group: use skep gang on a Linux machine"}, program: true, words: gangWords(),
			summary: "gang scheduling: let jobs of this machine take turns"},
		{name: "update", usage: "update build | inspect | apply | policy | status | commit | keys | sign | verify | revert | remove", runner: &wordless{updateWords(), "only Linux kernels can be updated: use skep update on a Linux machine"}, program: true, words: updateWords(),
			summary: "replace functions of a running kernel, for selected tasks, and revert"},
		{name: "service", usage: "service install | uninstall | status | start | stop | restart", runner: &wordless{words: serviceWords()}, program: true, words: serviceWords(),
			summary: "have hub and agent start at boot"},
		{name: "doctor", usage: "doctor [--state DIR] [--json]", runner: &doctor{},
			summary: "check this machine, and say how to fix what is wrong"},
		{name: "bench", usage: "bench --report FILE [--kit DIR] [--hosts A,B --measure PROGRAM] [--names]", runner: &bench{},
			summary: "measure what this machine can show, and write a file that can be sent"},
		{name: "version", usage: "version [--json]", runner: &versionOf{},
			summary: "print the versions of skep and of its protocol"},
		{name: "completion", usage: "completion bash | zsh | fish | powershell", runner: &completion{},
			summary: "print a script that completes command lines in a shell"},
		{name: "help", usage: "help [COMMAND [WORD]]", runner: &help{},
			summary: "print this list, or the options of one command"},
		{name: "guard", usage: "guard", runner: &guard{}, hidden: true,
			summary: "end what an agent started when the agent ends"},
		{name: "hold", usage: "hold", runner: &holdRun{}, hidden: true,
			summary: "keep a detached run"},
		{name: "pages", usage: "pages FOLDER", runner: &pages{}, hidden: true,
			summary: "write the manual pages and the scripts for completion"},
		{name: "kit", usage: "kit FOLDER", runner: &kit{}, hidden: true,
			summary: "run the test programs of the Windows kit"},
	}
}

func (c *command) newFlags() *cli.Flags {
	f := cli.NewFlags(c.name, c.usage)
	c.runner.options(f)
	return f
}

func main() { os.Exit(start(os.Args[0], os.Args[1:])) }

func start(program string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, err := "skep", error(nil)
	if tool := findTool(program); tool != nil {
		name, err = filepath.Base(program), tool(ctx, args)
	} else {
		err = dispatch(ctx, args)
	}
	code, text := cli.ExitCode(err)
	if text != "" {
		fmt.Fprintln(os.Stderr, service.Priority(os.Stderr, slog.LevelError)+name+": "+strings.TrimPrefix(text, name+": "))
	}
	return code
}
