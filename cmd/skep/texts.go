// SPDX-License-Identifier: MIT

package main

import (
	"maps"
	"strings"

	"skep/internal/manual"
)

// A text is the part of a command's help and manual page that does not concern options.
type text struct {
	text        []string // paragraphs
	examples    []manual.Entry
	files       []manual.Entry
	environment string // names, in internal/manual
	exit        string // exit codes, in exitTexts
	see         string // other pages
}

// texts returns the texts of all commands that people type, by name. The text of skep
// itself has an empty name.
func texts() map[string]text {
	all := map[string]text{}
	for _, some := range []map[string]text{rootTexts(), gridTexts(), standbyTexts(), userTexts(), policyTexts(), programTexts(), labTexts(), partTexts(), gangTexts(), updateTexts(), serviceTexts()} {
		maps.Copy(all, some)
	}
	return all
}

var exitTexts = map[string]string{
	"0":       "success",
	"1":       "failure",
	"2":       "usage: the command line is wrong",
	"3":       "a hub, node or machine cannot be reached, or was lost",
	"4":       "refused by a safety check",
	"75":      "SIGUSR1 asked for a restart: no program runs here any more",
	"126":     "the program cannot be run",
	"127":     "the program does not exist",
	"130":     "you interrupted it",
	"128+N":   "signal N ended the program",
	"program": "any other code is that of the program",
}

func exits(codes string) []manual.Entry {
	var entries []manual.Entry
	for _, code := range strings.Fields(codes) {
		name := code
		if code == "program" {
			name = "other"
		}
		entries = append(entries, manual.Entry{Name: name, Text: exitTexts[code]})
	}
	return entries
}

var (
	stateFile  = manual.Entry{Name: "~/.local/state/skep", Text: "the state directory (%LOCALAPPDATA%\\skep on Windows); --state or SKEP_STATE names another one"}
	hubFiles   = []manual.Entry{stateFile, {Name: "hub/", Text: "in it: the hub's certificate authority, tokens, programs, sockets, and the ledger, which records every call"}}
	agentFiles = []manual.Entry{stateFile, {Name: "agent/", Text: "in it: the node's identity, its cache and the output of workers"}}
)

const stateNames = "SKEP_STATE XDG_STATE_HOME LOCALAPPDATA"

func rootTexts() map[string]text {
	return map[string]text{
		"": {
			text: []string{"A hub gives work to nodes: Linux machines and Windows PCs that joined it. skep is hub, node and the command with which a user gives work to them. It also starts MPI programs over O2G, lends cores of this Linux to programs, updates functions of a running kernel, and starts virtual machines to try this in.",
				"Options of a command may be written with one or two dashes, and stand before, between or behind its words. Where the words are a program with its own options, skep's options stand before it; -- ends them. An error is one line on standard error."},
			examples: []manual.Entry{{Name: "skep up", Text: "start the hub; it prints the command with which other machines join"},
				{Name: "skep exec --on all -- ./program", Text: "run a static program on each node"},
				{Name: "skep doctor", Text: "check this machine"}},
			files: []manual.Entry{stateFile, {Name: "~/.cache/skep", Text: "kernel packages and sources that the lab and skep update build downloaded"},
				{Name: "/dev/dynamos, /dev/shimos, /dev/o2g", Text: "devices of the kernel modules"}},
			environment: stateNames + " XDG_CACHE_HOME XDG_RUNTIME_DIR HOME PATH TMPDIR TERM SKEP_BUILD",
			exit:        "0 1 2 3 4 126 127 128+N 130 program",
			see:         "bee(1) dynamos(4) o2g(4) shimos(4) skep-environment(7) skep-idl(5) fi_o2g(7)",
		},
		"doctor": {
			text:        []string{"One line per check: the machine, the system, the state directory, bee, what confines programs, the hub, the node, and the kernel modules. Below a line that is not ok stands a cure, a command where there is one. A note is no failure: something works, but not all of it."},
			examples:    []manual.Entry{{Name: "skep doctor --json", Text: "the same for a program: a list of name, state, found and cure"}},
			files:       []manual.Entry{stateFile, {Name: "/dev/o2g", Text: "the module's device, which is opened"}},
			environment: stateNames,
			exit:        "0 1 2", see: "skep(1)",
		},
		"bench": {
			text: []string{"In at most ten minutes: the programs of the kit, system calls, the start of a program, one solve of the demo, a hub and a node; with the kernel modules the noise of a lent core and the cost of an update; with --hosts O2G between two hosts. What this machine cannot show is listed with the reason.",
				"The file is JSON. Names of hosts, users and folders, and addresses, are taken out of it, unless --names is given. Read it before you send it."},
			examples:    []manual.Entry{{Name: "skep bench --report result.json --kit skep-kit", Text: "with the programs of an unpacked kit (make windows-kit)"}},
			files:       []manual.Entry{{Name: "kit.tbl", Text: "the list of the kit's programs, in DIR"}},
			environment: "TMPDIR USERPROFILE COMPUTERNAME USERDOMAIN USERDNSDOMAIN PROCESSOR_IDENTIFIER",
			exit:        "0 1 2", see: "skep-doctor(1)",
		},
		"version": {
			text:     []string{"One version counts for all programs of a release. The commit is that from which this program was built. A hub and its nodes work together if the revisions of their protocol differ by at most one. The substrates are those whose programs are installed here; 'skep doctor' says whether this machine can run them."},
			examples: []manual.Entry{{Name: "skep version --json", Text: "for programs: the same"}},
			exit:     "0 1 2", see: "skep(1)",
		},
		"help": {
			text:     []string{"The manual page of a command, such as skep-up(1), has the same text."},
			examples: []manual.Entry{{Name: "skep help up", Text: "the options of skep up; skep up --help prints the same"}, {Name: "skep help lab run", Text: "a command of two words"}},
			exit:     "0 1 2", see: "skep(1)",
		},
		"completion": {
			text: []string{"The script completes commands, options and some of their values: names of nodes, machines, partitions and updates. For names of nodes it asks the hub, at most for two seconds. Packages of Skep install these scripts."},
			examples: []manual.Entry{{Name: "source <(skep completion bash)", Text: "in this bash; the package bash-completion must be installed"},
				{Name: "skep completion zsh >\"${fpath[1]}/_skep\"", Text: "for each zsh from now on"},
				{Name: "skep completion fish >~/.config/fish/completions/skep.fish", Text: "for each fish from now on"},
				{Name: "skep completion powershell | Out-String | Invoke-Expression", Text: "in this PowerShell"}},
			exit: "0 1 2", see: "skep(1)",
		},
	}
}
