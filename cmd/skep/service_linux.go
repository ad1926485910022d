// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"skep/internal/cli"
	"skep/internal/service"
	"skep/packaging/systemd"
)

// systemState is the state directory of the system's services.
const (
	systemState    = "/var/lib/skep"
	userOptionText = "a service of this user, without root; it starts at login, or at boot after 'loginctl enable-linger'"
)

const (
	serviceInstallUsage   = "service install hub | agent | kernel [HOST:PORT] [--token-file FILE] [--user] [--root DIR] [-- OPTIONS OF SKEP UP OR JOIN]"
	serviceUninstallUsage = "service uninstall hub | agent | kernel [--user] [--root DIR] [--purge]"
)

func serviceNames() []string { return []string{hubService, agentService, kernelService} }

func systemServiceWords() []command {
	return []command{{name: "service restore", usage: "service restore [--settle TIME] [--retry]", runner: &serviceRestore{}, hidden: true,
		summary: "bring back the allowance of cores and committed updates"}}
}

func unitName(name string) string { return "skep-" + name + ".service" }

func (s *serviceInstall) options(f *cli.Flags) {
	s.sharedOptions(f)
	f.StringVar(&s.root, "root", "", "write the files below `DIR`, and start nothing")
}

// A setup is a service that is being installed or removed.
type setup struct {
	installation
	account string
	systemd *service.Systemd
}

func newSystemd(root string, user bool) (*service.Systemd, error) {
	s := &service.Systemd{User: user, Out: os.Stdout}
	if root == "" {
		return s, nil
	}
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		s.Root, err = filepath.Abs(root)
	}
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, cli.Errorf(cli.Usage, "--root %s is no folder that can be used (%w): make it with 'mkdir -p', or name the folder with the system's files", cli.CleanText(root), err)
	}
	return s, nil
}

func (s *serviceInstall) run(ctx context.Context, f *cli.Flags, words []string) error {
	p, err := s.prepare(f, words)
	if err != nil {
		return err
	}
	if p.systemd.Root == "" {
		if err := p.checkSystem(); err != nil {
			return err
		}
	}
	if p.name == kernelService {
		return p.installKernel()
	}
	if p.systemd.Root != "" {
		return p.writeBelow()
	}
	if err := p.makeAccount(); err != nil {
		return err
	}
	if err := p.join(ctx); err != nil {
		return err
	}
	changed, err := p.writeUnit()
	if err != nil {
		return err
	}
	return p.startUnit(changed)
}

// writeBelow writes the files below --root.
func (p *setup) writeBelow() error {
	account, err := p.writeAccount()
	if err != nil {
		return err
	}
	changed, err := p.writeUnit()
	if err == nil && !account && !changed {
		p.sayUnchanged()
	}
	return err
}

// sayUnchanged answers an installation that the same command has already made.
func (p *setup) sayUnchanged() {
	where := ""
	if p.systemd.Root != "" {
		where = " below " + p.systemd.Root
	}
	fmt.Printf("%s is installed already%s: no file was changed\n", unitName(p.name), where)
}

// prepare reads the command line.
func (s *serviceInstall) prepare(f *cli.Flags, words []string) (*setup, error) {
	switch {
	case s.user && s.root != "":
		return nil, f.Usagef("--root is for packages, whose units for users are in the system: take --root or --user")
	case s.root != "" && f.Given("token-file"):
		return nil, f.Usagef("an agent joins on its own machine, not below --root")
	}
	read, err := s.readWords(f, words)
	if err != nil {
		return nil, err
	}
	p := &setup{installation: *read}
	if p.name == kernelService && s.user {
		return nil, f.Usagef("the service kernel belongs to root: it has no --user")
	}
	if p.systemd, err = newSystemd(s.root, s.user); err != nil {
		return nil, err
	}
	if p.program = systemd.Program; p.systemd.Root == "" {
		p.program, err = os.Executable()
	}
	return p, err
}

// checkSystem returns an error if the service could not start on this system.
func (p *setup) checkSystem() error {
	if err := needSystemd(p.systemd.User); err != nil {
		return err
	}
	if p.systemd.User {
		return nil
	}
	if why := unsafeProgram(p.program); why != "" {
		return cli.Errorf(cli.Refused, "%s %s, so a service of the system must not start it: install it first, for example with 'sudo install %s /usr/local/bin', and use that one",
			p.program, why, p.program)
	}
	return nil
}

// needSystemd returns an error if init is not systemd, or if an ordinary user asks for a
// service of the system.
func needSystemd(user bool) error {
	if !service.Runs() {
		return cli.Errorf(cli.Refused, "process 1 of this system is %s, not systemd, the only one for which skep installs services: have %[1]s run 'skep up' or 'skep join' as an account of its own (docs/services.md)", service.InitName())
	}
	if !user && os.Geteuid() != 0 {
		return cli.Errorf(cli.Refused, "only root may install services of the system: use sudo, or --user for a service of your own")
	}
	return nil
}

// writeUnit writes the unit, and a drop-in with the settings of this installation.
func (p *setup) writeUnit() (changed bool, err error) {
	u, err := p.unit()
	if err != nil {
		return false, err
	}
	return p.systemd.Install(u)
}

func (p *setup) unit() (service.Unit, error) {
	kind, target := "system", "multi-user.target"
	if p.systemd.User {
		kind, target = "user", "default.target"
	}
	u := service.Unit{Name: unitName(p.name), Target: target}
	text, err := systemd.Files.ReadFile(kind + "/" + u.Name)
	if err != nil {
		return u, err
	}
	u.Text = text
	u.Dropin, err = p.dropin(string(text))
	return u, err
}

// The first version of systemd that has RestartSteps= and RestartMaxDelaySec=.
const backoffVersion = 254

func (p *setup) dropin(unit string) (string, error) {
	var b strings.Builder
	line := execLine(unit)
	words := strings.Fields(line)
	if p.systemd.User {
		dir, err := stateDir("")
		if err != nil {
			return "", err
		}
		words = append(words, "--state", dir)
	}
	if full := append(words[1:], p.passed...); words[0] != p.program || len(full) > len(strings.Fields(line))-1 {
		fmt.Fprintf(&b, "ExecStart=\nExecStart=%s\n", service.CommandLine(p.program, full...))
	}
	if !p.systemd.User && p.allow != nil {
		for _, path := range p.allow.write {
			fmt.Fprintf(&b, "ReadWritePaths=%s\n", service.QuotePath(path))
		}
	}
	if p.systemd.Root == "" && p.name != kernelService && p.systemd.Version() >= backoffVersion {
		b.WriteString("RestartSteps=8\nRestartMaxDelaySec=5min\n")
	}
	if b.Len() == 0 {
		return "", nil
	}
	return "[Service]\n" + b.String(), nil
}

// execLine returns the command of one of our units. Its words need no quotes.
func execLine(unit string) string {
	_, rest, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// startUnit starts the service now and at boot. It restarts a running service if its files
// or its token changed.
func (p *setup) startUnit(changed bool) error {
	unit := unitName(p.name)
	if changed {
		if _, err := p.systemd.Control("daemon-reload"); err != nil {
			return err
		}
	}
	if _, err := p.systemd.Control("enable", "--quiet", unit); err != nil {
		return err
	}
	verb := "start"
	if changed || p.token != "" {
		verb = "restart"
	}
	if _, err := p.systemd.Control(verb, unit); err != nil {
		return fmt.Errorf("%s is installed, but does not start; '%s' says why (%w)", unit, p.journalCommand(), err)
	}
	if err := p.checkStarted(unit); err != nil {
		return err
	}
	if !changed {
		p.sayUnchanged()
	}
	fmt.Printf("%s runs, and starts at %s; its log: %s\n", unit, p.when(), p.journalCommand())
	if p.name == hubService {
		fmt.Printf("a join command for another machine: %s\n", p.tokenCommand())
	}
	return nil
}

// checkStarted returns an error if systemd did not start the unit. In a chroot, systemctl
// ignores each command and succeeds.
func (p *setup) checkStarted(unit string) error {
	found, err := p.systemd.Properties(unit, "ActiveState")
	switch state := found["ActiveState"]; {
	case err != nil:
		return err
	case state == "":
		return cli.Errorf(cli.Refused, "%s is installed, but systemctl did nothing, as in a chroot: start it where the system runs", unit)
	case state != "active":
		return cli.Errorf(cli.Failed, "%s is installed, but is %s after its start; '%s' says why", unit, state, p.journalCommand())
	}
	return nil
}

func (p *setup) when() string {
	if p.systemd.User {
		return "login (at boot after 'loginctl enable-linger')"
	}
	return "boot"
}

func (p *setup) journalCommand() string {
	if p.systemd.User {
		return "journalctl --user -u skep-" + p.name
	}
	return "journalctl -u skep-" + p.name
}

func (p *setup) tokenCommand() string {
	if p.systemd.User {
		return "skep token"
	}
	return "sudo skep token --state " + systemState
}

// checkInstalled returns an error if there is no unit.
func checkInstalled(s *service.Systemd, name string) error {
	if s.Installed(unitName(name)) {
		return nil
	}
	user := ""
	if s.User {
		user = " --user"
	}
	return cli.Errorf(cli.Refused, "the service %s is not installed: 'skep service install %[1]s%s' does it", name, user)
}

func controlService(verb, name string, user bool) error {
	if err := needSystemd(user); err != nil {
		return err
	}
	s, err := newSystemd("", user)
	if err == nil {
		err = checkInstalled(s, name)
	}
	if err == nil {
		_, err = s.Control(verb, unitName(name))
	}
	return err
}
