// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/cli"
	"skep/internal/service"
	"skep/lab/hold"
	"skep/o2g/launch"
)

// A program's end becomes skep's exit code as in a shell.
func TestExitStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -KILL $$": 137, "kill -TERM $$": 143} {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Run()
		if got := exitStatus(cmd.ProcessState); got != want {
			t.Errorf("%s: %d, want %d", script, got, want)
		}
	}
}

// A probe lasts until its program ends, its time is over, or the user ends it.
func TestEndOfAProbe(t *testing.T) {
	await := func(u *updateProbe, ctx context.Context, program ...string) error {
		t.Helper()
		over, err := u.begin(ctx, program)
		if err != nil {
			return err
		}
		select {
		case err := <-over:
			return err
		case <-time.After(time.Minute):
			t.Fatal("it never ends")
		}
		return nil
	}
	if err := await(&updateProbe{length: time.Millisecond}, t.Context()); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, length := range []time.Duration{0, time.Hour} {
		if err := await(&updateProbe{length: length}, ended); err != nil {
			t.Error(err)
		}
	}
	over, err := (&updateProbe{}).begin(t.Context(), nil)
	select {
	case <-over:
		t.Error("a probe without a time ends by itself")
	default:
	}
	if err != nil {
		t.Error(err)
	}
	out := printedBy(t, &os.Stdout, func() { err = await(&updateProbe{}, t.Context(), "/bin/sh", "-c", "echo seen; exit $1", "sh", "3") })
	var exit *exec.ExitError
	if out != "seen\n" || !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%q, %v", out, err)
	}
	if code, _ := cli.ExitCode(await(&updateProbe{}, t.Context(), "/nonexistent")); code != exitMissing {
		t.Errorf("%d", code)
	}
}

// Without a terminal only the lines about fetching a kernel are shown.
func TestLabProgressInAFile(t *testing.T) {
	out := printedBy(t, &os.Stderr, func() {
		p := newLabProgress("6.1")
		if n, err := p.Write([]byte("fetching\n")); n != 9 || err != nil {
			t.Error(n, err)
		}
		p.showState(hold.Waiting)
		p.showState(hold.Booting)
		p.hide()
	})
	if out != "fetching\n" {
		t.Errorf("%q", out)
	}
}

// A user's service keeps its state unless it is purged, and never asks for an account.
func TestStateOfAUsersService(t *testing.T) {
	p := &setup{installation: installation{name: agentService}, systemd: &service.Systemd{User: true}}
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	leave := func(purge bool) string {
		return printedBy(t, &os.Stdout, func() {
			if err := p.leaveState(state, purge); err != nil {
				t.Error(err)
			}
		})
	}
	if out := leave(false); out != "its state stays in "+state+": 'skep service uninstall agent --purge' removes it\n" {
		t.Errorf("%q", out)
	}
	if out := leave(true); out != "removed "+state+"\n" {
		t.Errorf("%q", out)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("it was not removed")
	}
	if out := leave(true); out != "" {
		t.Errorf("%q", out)
	}
	if err := p.makeAccount(); err != nil || p.account != "" {
		t.Errorf("%q, %v", p.account, err)
	}
	t.Setenv(cli.StateVariable, state)
	if err := p.join(t.Context()); err == nil || !strings.Contains(err.Error(), "has joined no hub yet") {
		t.Error(err)
	}
	node := filepath.Join(agentState(state), "node")
	if err := os.MkdirAll(node, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(node, "admission.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.join(t.Context()); err != nil {
		t.Error(err)
	}
}

// With a token the agent joins now: what it says is shown if it does not.
func TestServiceJoins(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(cli.StateVariable, dir)
	t.Setenv("NOTES", filepath.Join(dir, "notes"))
	program := filepath.Join(dir, "skep")
	script := "#!/bin/sh\n{ echo \"$*\"; cat; echo; pwd; } >$NOTES\necho \"skep: the hub said \x01no\" >&2\nexit ${CODE-0}\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := &setup{installation: installation{name: agentService, token: "secret", program: program}, systemd: &service.Systemd{User: true}}
	if err := p.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := strings.Join(p.joinWords(dir), " ") + "\nsecret\n/\n"
	if text, err := os.ReadFile(filepath.Join(dir, "notes")); err != nil || string(text) != want {
		t.Errorf("%q, not %q; %v", text, want, err)
	}
	t.Setenv("CODE", "4")
	if code, text := cli.ExitCode(p.join(t.Context())); code != 4 || text != "no unit was written, because the agent did not join: the hub said ?no" {
		t.Errorf("%d %q", code, text)
	}
	os.Remove(program)
	if err := p.join(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	p.name = hubService
	if err := p.join(t.Context()); err != nil {
		t.Errorf("a hub joins: %v", err)
	}
}

// The shell of a batch system gets each word as it was typed.
func TestQsubWords(t *testing.T) {
	for words, want := range map[string]string{"": "'qsub'", "  ": "'qsub'", "qsub -P a;b": "'qsub' '-P' 'a;b'"} {
		t.Setenv("SKEP_QSUB", words)
		if got := qsubWords(); got != want {
			t.Errorf("%q: %q", words, got)
		}
	}
}

// Accounts of this machine have names; others are shown by their numbers.
func TestUpdateNames(t *testing.T) {
	n := updateNames()
	if n.User(0) != "root" || n.Group(0) != "root" || n.User(4000000001) != "" || n.Group(4000000001) != "" || n.Now <= 0 {
		t.Errorf("%q, %q, %v", n.User(0), n.Group(0), n.Now)
	}
	text := sharedAdvice(&launch.Install{Kind: launch.OpenMPI}, errors.New("there is no /dev/shm"))
	if !strings.HasPrefix(text, "there is no /dev/shm, and Open MPI needs that to start") {
		t.Errorf("%q", text)
	}
}
