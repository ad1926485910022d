// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"

	"skep/internal/cli"
)

// Names of the services: the two sides of a grid, and on Linux the kernel's modules,
// allowance and updates.
const (
	hubService    = "hub"
	agentService  = "agent"
	kernelService = "kernel"
)

func serviceWords() []command {
	return append([]command{
		{name: "service install", usage: "service install hub | agent | kernel [HOST:PORT] [--token-file FILE] [--user] [--root DIR] [-- OPTIONS OF SKEP UP OR JOIN]", runner: &serviceInstall{},
			summary: "have it start at boot, and start it"},
		{name: "service uninstall", usage: "service uninstall hub | agent | kernel [--user] [--root DIR] [--purge]", runner: &serviceUninstall{},
			summary: "stop it, and remove all but its state"},
		{name: "service status", usage: "service status [--user] [--json] [hub | agent | kernel]", runner: &serviceStatus{},
			summary: "show which services are installed, and how they do"},
		{name: "service start", usage: "service start [--user] hub | agent", runner: &serviceControl{verb: "start"},
			summary: "start an installed service"},
		{name: "service stop", usage: "service stop [--user] hub | agent", runner: &serviceControl{verb: "stop"},
			summary: "stop a service until it is started, or until the next boot"},
		{name: "service restart", usage: "service restart [--user] hub | agent", runner: &serviceControl{verb: "restart"},
			summary: "stop a service and start it"},
	}, systemServiceWords()...)
}

// oneService returns the name of a service and the words after it.
func oneService(f *cli.Flags, words []string) (string, []string, error) {
	names := serviceNames()
	if len(words) == 0 {
		return "", nil, f.Usagef("a service is expected: %s", strings.Join(names, ", "))
	}
	for _, name := range names {
		if words[0] == name {
			return name, words[1:], nil
		}
	}
	if meant := cli.Nearest(words[0], names); meant != "" {
		return "", nil, f.Usagef("there is no service %q; did you mean %s?", words[0], meant)
	}
	return "", nil, f.Usagef("there is no service %q: there are %s", words[0], strings.Join(names, ", "))
}

// onlyService is oneService where no more words may follow.
func onlyService(f *cli.Flags, words []string) (string, error) {
	name, rest, err := oneService(f, words)
	if err != nil {
		return "", err
	}
	return name, f.RefuseArgs(rest)
}

// serviceOptions checks the options that are passed on to skep up or skep join, so that a
// mistake is reported now and not at boot. It refuses options that the service itself sets.
func serviceOptions(name string, args []string) (allow *allowances, err error) {
	if name == kernelService {
		if len(args) > 0 {
			return nil, cli.Errorf(cli.Usage, "service install kernel: %q is not expected", args[0])
		}
		return &allowances{}, nil
	}
	u, j := &up{}, &join{}
	var runner runner = u
	allow = &u.allow
	if name == agentService {
		runner, allow = j, &j.allow
	}
	f := cli.NewFlags("service install "+name, "service install "+name+" -- OPTIONS")
	runner.options(f)
	words, err := f.Parse(args)
	if err == nil {
		err = f.RefuseArgs(words)
	}
	for _, own := range []string{"state", "token", "token-file", "only", "no-token", "uses", "expires"} {
		if err == nil && f.Given(own) {
			err = f.Usagef("%s is set by the service itself, and cannot be passed on", cli.DashedName(own))
		}
	}
	if err == nil && name == hubService {
		err = u.check(f)
	} else if err == nil {
		err = checkSlots(f, j.slots)
	}
	return allow, err
}

// serviceControl is a subcommand that runs the systemctl command of the same name.
type serviceControl struct {
	verb string
	user bool
}

func (s *serviceControl) options(f *cli.Flags) { userOption(f, &s.user) }

func (s *serviceControl) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := onlyService(f, words)
	if err != nil {
		return err
	}
	return controlService(s.verb, name, s.user)
}

func userOption(f *cli.Flags, user *bool) {
	f.BoolVar(user, "user", false, userOptionText)
}
