// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
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
		{name: "service install", usage: serviceInstallUsage, runner: &serviceInstall{},
			summary: "have it start at boot, and start it"},
		{name: "service uninstall", usage: serviceUninstallUsage, runner: &serviceUninstall{},
			summary: "stop it, and remove all but its state"},
		{name: "service status", usage: "service status [--user] [--json] [" + strings.Join(serviceNames(), " | ") + "]", runner: &serviceStatus{},
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
		return "", nil, f.Expectf("a service is expected: %s", strings.Join(names, ", "))
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
	f.ListedBy = map[string]string{hubService: "up", agentService: "join"}[name]
	words, err := f.Parse(args)
	if err == nil {
		err = f.RefuseArgs(words)
	}
	for _, own := range []string{"state", "token", "token-file", "only", "no-token", "uses", "expires"} {
		if err == nil && f.Given(own) {
			err = f.Usagef("%s is set by the service itself, and cannot be passed on", cli.DashedName(own))
		}
	}
	if err == nil && allow.policyGiven != "" && !filepath.IsAbs(allow.policyGiven) {
		err = f.Usagef("--policy %s: a service starts in another directory; give the whole path", allow.policyGiven)
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

type serviceInstall struct {
	tokenFile, root string
	user            bool
	passed          []string // options of skep up or skep join
}

func (s *serviceInstall) sharedOptions(f *cli.Flags) {
	f.StringVar(&s.tokenFile, "token-file", "", "agent: join the hub now with the token in `FILE`, or on standard input with -; it is not kept")
	userOption(f, &s.user)
}

// splitArgs stores the words after -- for skep up or skep join.
func (s *serviceInstall) splitArgs(_ *cli.Flags, args []string) ([]string, error) {
	if at := slices.Index(args, "--"); at >= 0 {
		s.passed = args[at+1:]
		args = args[:at]
	}
	return args, nil
}

// An installation is what a user asked for.
type installation struct {
	name, program string
	address       string // of the hub to join
	token         string
	passed        []string
	allow         *allowances
}

// readWords reads the command line of an installation, and the token.
func (s *serviceInstall) readWords(f *cli.Flags, words []string) (*installation, error) {
	name, words, err := oneService(f, words)
	if err != nil {
		return nil, err
	}
	p := &installation{name: name, passed: s.passed}
	if len(words) > 0 && name == agentService {
		p.address, words = words[0], words[1:]
		if _, _, err := net.SplitHostPort(p.address); err != nil {
			return nil, f.Usagef("%q is not the HOST:PORT of a hub", p.address)
		}
	}
	switch {
	case len(words) > 0:
		return nil, f.RefuseArgs(words)
	case name != agentService && f.Given("token-file"):
		return nil, f.Usagef("only an agent joins a hub with a token")
	case name == agentService && f.Given("token-file") != (p.address != ""):
		return nil, f.Usagef("HOST:PORT and --token-file belong together, as 'skep token' on the hub prints them")
	}
	if p.allow, err = serviceOptions(name, s.passed); err != nil {
		return nil, err
	}
	if f.Given("token-file") {
		p.token, err = readTokenFile(s.tokenFile, os.Stdin)
	}
	return p, err
}

// joinWords are those with which an agent joins its hub, and works later.
func (p *installation) joinWords(state string) []string {
	return append([]string{"join", p.address, "--only", "--token-file", "-", "--state", state}, p.passed...)
}

func errNotJoined() error {
	return cli.Errorf(cli.Usage, "this agent has joined no hub yet: 'skep service install agent HOST:PORT --token-file FILE', with what 'skep token' on the hub prints in FILE")
}

// confirmPurge asks the user to type the name, because a removed state is lost: a hub's
// state holds the identities of all its nodes.
func confirmPurge(in io.Reader, name, state string) error {
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fmt.Printf("this removes %s for good; type %q to go on: ", state, name)
	line, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if strings.TrimSpace(line) != name {
		fmt.Println()
		return cli.Errorf(cli.Refused, "%q was not typed: nothing was removed", name)
	}
	return nil
}
