// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"io/fs"
	"os/user"
	"strconv"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
	"skep/internal/uapi"
)

func updateWords() []command {
	return []command{
		{name: "update build", usage: "update build PATCH | PACKAGE [--kernel KERNEL] [--name NAME] [--class CLASS --because REASON] [-o FILE]", runner: &updateBuild{},
			summary: "make a package from a patch of the kernel's source"},
		{name: "update serve", usage: "update serve [--listen HOST:PORT] [--dir DIR]", runner: &updateServe{},
			summary: "build signed packages again for the kernels of other machines"},
		{name: "update builds", usage: "update builds --at URL [--get KEY [-o FILE] | --offer FILE | --take | --json]", runner: &updateBuilds{},
			summary: "what a build service built; offer it signed, or take it"},
		{name: "update inspect", usage: "update inspect [--json] FILE", runner: &updateInspect{},
			summary: "what a package changes, and in which kernels"},
		{name: "update apply", usage: "update apply FILE | NAME [FOR WHOM] [--supersede] [--confirm TIME] [OPTIONS]", runner: &updateApply{},
			summary: "apply an update on trial, for the tasks that the options select"},
		{name: "update policy", usage: "update policy NAME FOR WHOM", runner: &updatePolicy{},
			summary: "change who takes an applied update"},
		{name: "update status", usage: "update status [--json] [NAME]", runner: &updateStatus{},
			summary: "show loaded updates, who takes them, and their health"},
		{name: "update probe", usage: "update probe [--each-call] [--for TIME] [--every TIME] [--json] FUNCTION... [-- PROGRAM [ARGS]]", runner: &updateProbe{}, program: true,
			summary: "count and time calls of kernel functions, as long as the command runs"},
		{name: "update commit", usage: "update commit NAME", runner: &updateCommit{},
			summary: "keep an update that is on trial"},
		{name: "update hold", usage: "update hold NAME -- PROGRAM [ARGS] | update hold --cgroup DIR [--wait TIME] NAME", runner: &updateHold{}, program: true,
			summary: "put a committed update in force for one job, until the job ends"},
		{name: "update roll", usage: "update roll FILE... [--waves STEPS] [--per UNIT] [--canary POLICY] [--policy POLICY] [--supersede] [OPTIONS]", runner: &updateRoll{},
			summary: "bring a signed update to the hub's nodes, in waves"},
		{name: "update rolls", usage: "update rolls [--json] [NAME] | --pause NAME | --resume NAME | --stop NAME | --forget NAME | --audit NAME", runner: &updateRolls{},
			summary: "show rolls and their nodes, or change one"},
		{name: "update keys", usage: "update keys new | show | rotate | trust | revoke", runner: &wordless{words: keysWords()}, program: true, words: keysWords(),
			summary: "the keys of operators, and those that this node trusts"},
		{name: "update sign", usage: "update sign FILE --key KEY [--sequence N --widest POLICY] [OPTIONS]", runner: &updateSign{},
			summary: "sign a package, an order to revert it, or a document of keys"},
		{name: "update verify", usage: "update verify FILE [--keys FILE]", runner: &updateVerify{},
			summary: "who signed a file, and what this node would do with it"},
		{name: "update revert", usage: "update revert [--to OLDER] [--wait TIME] [--remove] NAME | FILE", runner: &updateRevert{},
			summary: "revert an update, and wait for its last calls"},
		{name: "update remove", usage: "update remove NAME", runner: &updateRemove{},
			summary: "unload a reverted update"},
	}
}

// updateError adds the exit code to an error of an update.
func updateError(err error) error {
	var refused *update.RefusedError
	if update.Included(err) || errors.As(err, &refused) || trust.Name(err) != "" {
		return cli.Errorf(cli.Refused, "%s", cli.CleanText(err.Error()))
	}
	return err
}

// openPackage reads a package's file.
func openPackage(path string) (*pack.Package, error) {
	p, err := pack.Open(path)
	var missing *fs.PathError
	if err != nil && !errors.As(err, &missing) {
		return nil, cli.WithCode(cli.Refused, err)
	}
	return p, err
}

// onePackage reads the package that is the only word of a command.
func onePackage(f *cli.Flags, words []string) (*pack.Package, error) {
	if len(words) == 0 {
		return nil, f.Expectf("a package is expected")
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return nil, err
	}
	return openPackage(words[0])
}

// withDevice opens /dev/dynamos, calls do, and closes it.
func withDevice(do func(d *update.Device) error) error {
	d, err := update.Open()
	if err != nil {
		return updateError(err)
	}
	defer d.Close()
	return updateError(do(d))
}

// An updateSource lists updates and their events: the device, or one of a test.
type updateSource interface {
	update.Source
	Events() ([]uapi.DynamosEvent, error)
}

// updateNames converts uids, gids and cgroups to names.
func updateNames() update.Names {
	return update.Names{
		User: func(id uint32) string {
			if u, err := user.LookupId(strconv.FormatUint(uint64(id), 10)); err == nil {
				return u.Username
			}
			return ""
		},
		Group: func(id uint32) string {
			if g, err := user.LookupGroupId(strconv.FormatUint(uint64(id), 10)); err == nil {
				return g.Name
			}
			return ""
		},
		Cgroup:  update.CgroupPath,
		Program: update.ProgramName,
		Now:     update.Boottime(),
	}
}

// oneUpdate parses the only word of these commands.
func oneUpdate(f *cli.Flags, words []string) (string, error) {
	if len(words) == 0 {
		return "", f.Expectf("an update is expected")
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return "", err
	}
	if len(words[0]) >= uapi.DynamosName {
		return "", f.Usagef("%.80q is not the name of an update", words[0])
	}
	return words[0], nil
}
