// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"skep/internal/cli"
	"skep/internal/place"
	"skep/internal/service"
)

const (
	userOptionText        = "start it when this user logs on, without an administrator"
	serviceInstallUsage   = "service install hub | agent [HOST:PORT] [--token-file FILE] [--user] [-- OPTIONS OF SKEP UP OR JOIN]"
	serviceUninstallUsage = "service uninstall hub | agent [--user] [--purge]"
)

func serviceNames() []string { return []string{hubService, agentService} }

func systemServiceWords() []command {
	return []command{{name: "service run", usage: "service run hub | agent --state DIR [--user | --child] [-- OPTIONS]", runner: &serviceRun{}, hidden: true,
		summary: "be the service, for the service control manager or the logon"}}
}

// entryName is what Windows calls a service of ours.
func entryName(name string) string { return "skep-" + name }

// serviceMark begins the words of a service of ours.
func serviceMark(name string) string { return " service run " + name + " --state " }

func (s *serviceInstall) options(f *cli.Flags) { s.sharedOptions(f) }

// A setup is one service being installed or removed. folder is its state
// directory, of which state is the part of this service.
type setup struct {
	installation
	user          bool
	folder, state string
}

func newSetup(read installation, user bool) (p *setup, err error) {
	p = &setup{installation: read, user: user}
	if user {
		p.folder, err = stateDir("")
	} else {
		p.folder, err = service.SystemState()
	}
	if err != nil {
		return nil, err
	}
	p.state = filepath.Join(p.folder, p.name)
	p.program, err = os.Executable()
	return p, err
}

func (s *serviceInstall) run(ctx context.Context, f *cli.Flags, words []string) error {
	read, err := s.readWords(f, words)
	if err != nil {
		return err
	}
	p, err := newSetup(*read, s.user)
	if err != nil {
		return err
	}
	if err := p.checkProgram(); err != nil {
		return err
	}
	if err := p.makeFolders(); err != nil {
		return cli.WithCode(cli.Refused, err)
	}
	if err := p.join(ctx); err != nil {
		return err
	}
	if s.user {
		return p.installLogon()
	}
	return p.installEntry()
}

// checkProgram refuses what could not start.
func (p *setup) checkProgram() error {
	if a := p.allow; len(a.read)+len(a.write) > 0 || a.network {
		return cli.Errorf(cli.Usage, "on Windows --allow, --allow-write and --allow-network have no effect, and a node with them does not start: leave them out")
	}
	if p.name == agentService {
		if _, err := place.FindFile("bee.exe"); err != nil {
			return cli.Errorf(cli.Refused, "bee.exe is not beside %s, and a node needs it: put both into one folder", p.program)
		}
	}
	if p.user {
		return nil
	}
	if err := service.MayInstall(entryName(p.name)); err != nil {
		return refusedBy(err)
	}
	if why := service.UnsafeProgram(p.program); why != "" {
		return cli.Errorf(cli.Refused, `%s %s, so a service of the system must not start it: copy skep.exe and bee.exe to C:\Program Files\skep, and use those`, p.program, why)
	}
	return nil
}

func (p *setup) makeFolders() error {
	if p.user {
		return os.MkdirAll(p.state, 0o700)
	}
	if err := service.ProtectFolder(p.folder, service.SharedSDDL()); err != nil {
		return err
	}
	return service.ProtectFolder(p.state, service.FolderSDDL(service.VirtualSID(entryName(p.name))))
}

// join has the agent join its hub now, so that no token is in a service. What it
// writes has the rights of the folder, so the service's account may use it.
func (p *setup) join(ctx context.Context) error {
	if p.name != agentService {
		return nil
	}
	if p.token == "" {
		if _, err := os.Stat(filepath.Join(p.state, "node", "admission.json")); err != nil {
			return errNotJoined()
		}
		return nil
	}
	cmd := exec.CommandContext(ctx, p.program, p.joinWords(p.folder)...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(p.token), os.Stdout, &said
	err := cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) {
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), "skep: ")
		return cli.Errorf(max(status.ExitCode(), cli.Failed), "nothing was installed, because the agent did not join: %s", cli.CleanText(text))
	}
	return err
}

// command is the line that starts the service, with one word of whoever does.
func (p *setup) command(more ...string) string {
	words := append([]string{"service", "run", p.name, "--state", p.folder}, more...)
	if len(p.passed) > 0 {
		words = append(append(words, "--"), p.passed...)
	}
	return service.WindowsCommandLine(p.program, words...)
}

func (p *setup) entry() *service.Entry {
	what := map[string]string{hubService: "Gives work to the nodes of a grid.", agentService: "Works for the hub that this computer joined."}
	return &service.Entry{Name: entryName(p.name), Display: "Skep " + p.name, Description: what[p.name], Command: p.command(), Mark: serviceMark(p.name)}
}

func (p *setup) installEntry() error {
	e := p.entry()
	changed, unkept, err := e.Install()
	if err != nil {
		return refusedBy(err)
	}
	if len(unkept) > 0 {
		fmt.Fprintf(os.Stderr, "skep: this system does not keep these settings of services: %s\n", strings.Join(unkept, ", "))
	}
	if changed {
		fmt.Printf("installed the service %s of the account %s: %s\n", e.Name, service.VirtualAccount(e.Name), e.Command)
	} else {
		fmt.Println("nothing was changed")
	}
	if changed || p.token != "" {
		err = service.StopEntry(e.Name)
	}
	if err == nil {
		err = service.StartEntry(e.Name)
	}
	if err != nil {
		return refusedBy(err)
	}
	fmt.Printf("%s runs, and starts soon after each boot; %s\n", e.Name, service.EventsHint(e.Name))
	p.printToken(" --state " + p.folder + ", as administrator")
	return nil
}

func (p *setup) printToken(more string) {
	if p.name == hubService {
		fmt.Printf("a join command for another machine: skep token%s\n", more)
	}
}

func (p *setup) logon() *service.Logon {
	return &service.Logon{Name: entryName(p.name), Command: p.command("--user"), State: p.state}
}

func (p *setup) installLogon() error {
	l := p.logon()
	changed, err := l.Install()
	if err != nil {
		return err
	}
	if changed {
		fmt.Printf("%s starts when this user logs on: %s\n", l.Name, l.Command)
	} else {
		fmt.Println("nothing was changed")
	}
	if changed || p.token != "" {
		err = l.Stop()
	}
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		return cli.WithCode(cli.Refused, err)
	}
	fmt.Printf("%s runs; its log: %s\n", l.Name, l.LogPath())
	p.printToken("")
	return nil
}

// refusedBy gives what the service control manager refused its exit code.
func refusedBy(err error) error {
	var manager *service.ManagerError
	if errors.As(err, &manager) {
		return cli.WithCode(cli.Refused, err)
	}
	return err
}

// notAtLogon says that this user has no such program.
func notAtLogon(name string) error {
	return cli.Errorf(cli.Refused, "the service %s is not installed for this user: 'skep service install %[1]s --user' does it", name)
}

func controlService(verb, name string, user bool) error {
	stop, start := func() error { return service.StopEntry(entryName(name)) }, func() error { return service.StartEntry(entryName(name)) }
	if user {
		p, err := newSetup(installation{name: name}, true)
		if err != nil {
			return err
		}
		if _, err := p.logon().Installed(); err != nil {
			return notAtLogon(name)
		}
		stop, start = p.logon().Stop, p.logon().Start
	}
	if verb != "start" {
		if err := stop(); err != nil {
			return refusedBy(err)
		}
	}
	if verb == "stop" {
		return nil
	}
	return refusedBy(start())
}
