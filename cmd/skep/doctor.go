// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"skep/grid/agent"
	"skep/internal/cli"
	"skep/internal/place"
)

// States of a check. Only the last makes skep doctor fail.
const (
	checkOK   = "ok"
	checkNote = "note" // works with restrictions
	checkBad  = "bad"
)

// A check is one line of skep doctor.
type check struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Found string `json:"found"`
	Cure  string `json:"cure,omitempty"`
}

func passed(name, format string, args ...any) check {
	return check{Name: name, State: checkOK, Found: fmt.Sprintf(format, args...)}
}

func (c check) withState(state, cure string) check {
	c.State, c.Cure = state, cure
	return c
}

type doctor struct {
	state string
	json  bool
}

func (d *doctor) options(f *cli.Flags) {
	f.StringVar(&d.state, "state", "", "keep data of hub and agent in `DIR`")
	f.BoolVar(&d.json, "json", false, "print JSON, for programs")
}

func (d *doctor) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	state, err := stateDir(d.state)
	if err != nil {
		return err
	}
	checks := []check{checkMachine()}
	checks = append(checks, checkSystem()...)
	checks = append(checks, checkState(state)...)
	checks = append(checks, checkBee(ctx)...)
	checks = append(checks, checkConfined())
	checks = append(checks, checkHub(ctx, state))
	checks = append(checks, checkNode(ctx, state)...)
	if err := printChecks(checks, d.json); err != nil {
		return err
	}
	bad := 0
	for _, c := range checks {
		if c.State == checkBad {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d checks failed; the lines above say what to do", bad, len(checks))
	}
	return nil
}

func printChecks(checks []check, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(os.Stdout, checks)
	}
	table := cli.NewTable("CHECK", "STATE", "FOUND")
	for _, c := range checks {
		table.Row(c.Name, c.State, c.Found)
		if c.Cure != "" {
			table.Row("", "cure", c.Cure)
		}
	}
	return table.Write(os.Stdout)
}

// stateDir returns the directory given by --state, or the user's own.
func stateDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	return cli.StateDir()
}

func checkMachine() check {
	c := passed("machine", "%s, %d CPUs", runtime.GOARCH, runtime.NumCPU())
	if runtime.GOARCH != "amd64" {
		return c.withState(checkBad, "workers are x86-64 programs: use a machine of that kind")
	}
	return c
}

// roomWanted is the disk space that a hub or a node needs for programs and arguments.
const roomWanted = 1 << 30

func checkState(dir string) []check {
	there := dir // then the nearest parent that exists
	for {
		info, err := os.Stat(there)
		if err == nil && !info.IsDir() {
			return []check{passed("state", "%s is not a directory", there).withState(checkBad, "remove it or give another --state")}
		}
		if err == nil || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	c := passed("state", "%s", dir)
	if probe, err := os.CreateTemp(there, ".skep-doctor-*"); err != nil {
		c = passed("state", "%v", err).withState(checkBad, "make it writable or give another --state")
	} else {
		probe.Close()
		os.Remove(probe.Name())
	}
	return []check{c, checkRoom(there)}
}

func checkRoom(dir string) check {
	free, err := freeSpace(dir)
	if err != nil {
		return passed("room", "%v", err).withState(checkNote, "")
	}
	c := passed("room", "%s free at %s", cli.FormatBytes(free), dir)
	if free < roomWanted {
		return c.withState(checkBad, "free "+cli.FormatBytes(roomWanted)+" there or give another --state")
	}
	return c
}

// beePath returns the path of the loader that belongs to this skep. The file may be
// missing.
func beePath() (string, error) {
	name := "bee"
	if runtime.GOOS == "windows" {
		name = "bee.exe"
	}
	path, err := place.FindFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, err
}

// checkConfined reports how a node on this machine would confine programs.
func checkConfined() check {
	found, err := agent.FindConfined()
	if err != nil {
		return passed("confined", "%v", err).withState(checkBad, "no program can be started here until this is repaired")
	}
	c := passed("confined", "%v", found)
	switch found.Kind {
	case agent.ConfinedNot:
		return c.withState(checkNote, namespacesCure("/")+", or use Linux 5.13 or newer with Landlock")
	case agent.ConfinedLandlock:
		return c.withState(checkNote, namespacesCure("/")+", which closes this too")
	case agent.ConfinedBee:
		return c.withState(checkNote, "join only hubs whose users you trust")
	}
	return c
}

// namespacesCure says how root allows user namespaces. It reads /proc below root.
func namespacesCure(root string) string {
	var commands []string
	for _, c := range []struct{ file, off, command string }{
		{"kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		if text, err := os.ReadFile(filepath.Join(root, "proc/sys", c.file)); err == nil && strings.TrimSpace(string(text)) == c.off {
			commands = append(commands, c.command)
		}
	}
	if len(commands) == 0 {
		return "allow user namespaces, which no sysctl forbids here: a container or a security module does"
	}
	return strings.Join(commands, " && ")
}

const probeTimeout = time.Minute

// checkBee runs the loader's own checks. A Linux node works without the loader.
func checkBee(ctx context.Context) []check {
	path, err := beePath()
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		if runtime.GOOS != "windows" {
			return []check{passed("bee", "not beside skep").withState(checkNote, "only 'skep join --bee' needs it")}
		}
		return []check{passed("bee", "%v", err).withState(checkBad, "put bee.exe beside skep.exe: workers run in it")}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--probe").CombinedOutput()
	checks := probeLines(string(out))
	if err != nil {
		checks = append(checks, passed("bee", "bee --probe: %v", err).withState(checkBad,
			"the lines above say what this machine lacks; docs/windows.md explains them"))
	}
	return checks
}

// probeLines parses the output of bee --probe: lines "name state text", on Linux without
// the state.
func probeLines(out string) []check {
	var checks []check
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		state := words[1]
		text := strings.Join(words[2:], " ")
		switch {
		case state == "ok" && words[0] == "host":
			checks = append(checks, passed("bee", "%s", text))
		case state == "bad":
			checks = append(checks, passed("bee "+words[0], "%s", text).withState(checkBad, "guests can't run here; docs/windows.md, "+words[0]))
		case state == "absent" || state == "accepted":
			checks = append(checks, passed("bee "+words[0], "%s", text).withState(checkNote, ""))
		}
	}
	if len(checks) == 0 {
		first, _, _ := strings.Cut(out, "\n")
		return []check{passed("bee", "%s", strings.TrimSpace(first))}
	}
	return checks
}
