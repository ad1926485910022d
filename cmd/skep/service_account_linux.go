// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"skep/internal/cli"
	"skep/packaging/systemd"
)

// The account of hub and agent, and its file for sysusers.d(5).
const (
	serviceAccount = "skep"
	sysusersFile   = "etc/sysusers.d/skep.conf"
	systemUIDMax   = 999
)

// unsafeProgram returns why a service of the system must not start a program, or an empty
// string.
func unsafeProgram(program string) string {
	for path := program; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			return "cannot be found"
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		switch sticky := info.Mode()&os.ModeSticky != 0; {
		case !ok || s.Uid != 0:
			return "can be replaced by the owner of " + path
		case info.Mode().Perm()&0o022 != 0 && !sticky:
			return "can be replaced by others than root, who may write to " + path
		case info.Mode().Perm()&0o001 == 0:
			return "cannot be reached by other accounts, because of the mode of " + path
		}
		if path == "/" {
			break
		}
	}
	for _, hidden := range []string{"/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"} {
		if strings.HasPrefix(program, hidden) {
			return "is below " + hidden + ", which services do not see"
		}
	}
	return ""
}

// writeAccount writes the account's sysusers.d file, unless a package installed one.
func (p *setup) writeAccount() (changed bool, err error) {
	if _, err := os.Stat(filepath.Join("/", p.systemd.Root, "usr/lib/sysusers.d/skep.conf")); err == nil {
		return false, nil
	}
	text, err := systemd.Files.ReadFile("sysusers/skep.conf")
	if err != nil {
		return false, err
	}
	return p.systemd.WriteFile(filepath.Join("/", p.systemd.Root, sysusersFile), string(text))
}

// makeAccount creates the account of the system's services. It refuses an existing account
// that belongs to a person.
func (p *setup) makeAccount() error {
	if p.systemd.User {
		return nil
	}
	p.account = serviceAccount
	if _, err := user.Lookup(serviceAccount); err != nil {
		if _, err := p.writeAccount(); err != nil {
			return err
		}
		if err := runAccountTool("systemd-sysusers"); err != nil {
			return err
		}
	}
	uid, gid, err := accountNumbers()
	if err != nil {
		return err
	}
	if uid == 0 || uid > systemUIDMax {
		return cli.Errorf(cli.Refused, "the account %q has the number %d: it is a person's, not the services' own; rename it, or use --user as that person", serviceAccount, uid)
	}
	if err := os.Mkdir(systemState, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Chown(systemState, uid, gid)
}

func accountNumbers() (uid, gid int, err error) {
	account, err := user.Lookup(serviceAccount)
	if err != nil {
		return 0, 0, fmt.Errorf("the account %q was not made: %w", serviceAccount, err)
	}
	if uid, err = strconv.Atoi(account.Uid); err == nil {
		gid, err = strconv.Atoi(account.Gid)
	}
	return uid, gid, err
}

func runAccountTool(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, cli.CleanText(strings.TrimSpace(string(out))))
	}
	return nil
}

// agentDir returns the folder of the agent's identity.
func (p *setup) agentDir() (string, error) {
	if !p.systemd.User {
		return agentState(systemState), nil
	}
	dir, err := stateDir("")
	return agentState(dir), err
}

// join joins the hub now, as the service's account, because every user could read a token
// in a unit. Without a token the account must have joined before.
func (p *setup) join(ctx context.Context) error {
	if p.name != agentService {
		return nil
	}
	if p.token == "" {
		return p.checkIdentity()
	}
	dir, err := p.agentDir()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.program, p.joinWords(filepath.Dir(dir))...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = strings.NewReader(p.token), os.Stdout, &said, "/"
	if !p.systemd.User {
		uid, gid, err := accountNumbers()
		if err != nil {
			return err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	err = cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) {
		text := strings.TrimPrefix(strings.TrimSpace(said.String()), "skep: ")
		return cli.Errorf(max(status.ExitCode(), cli.Failed), "no unit was written, because the agent did not join: %s", cli.CleanText(text))
	}
	return err
}

func (p *setup) checkIdentity() error {
	dir, err := p.agentDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "node", "admission.json")); err != nil {
		return errNotJoined()
	}
	return nil
}
