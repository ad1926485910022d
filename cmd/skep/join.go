// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"skep/grid/agent"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/cli"
	"skep/internal/service"
)

// lostLimit is how long an agent in a job of a batch system looks for the hub of its run, which
// does not come back if it ended.
const lostLimit = time.Minute

// hurryAfter is how long after the first signal another one is the second: timeout(1) sends each
// twice, to the process and to its group.
const hurryAfter = time.Second

type join struct {
	token     string
	tokenFile string
	state     string
	name      string
	slots     int
	only      bool
	untilEOF  bool
	untilLost bool
	bee       string
	keys      string
	allow     allowances
	labels    labels
}

func (j *join) options(f *cli.Flags) {
	f.StringVar(&j.token, "token", "", "the `TOKEN` in the hub's join command, for the first join")
	f.StringVar(&j.tokenFile, "token-file", "", "read the token from `FILE`, or from standard input with -; or set SKEP_TOKEN")
	f.StringVar(&j.state, "state", "", "keep data in `DIR`")
	f.StringVar(&j.name, "name", "", "call this node `NAME` (the machine's name)")
	f.IntVar(&j.slots, "slots", 0, "run `N` workers at a time (one per CPU)")
	f.BoolVar(&j.only, "only", false, "join, but run no programs: a later 'skep join' or a service does")
	f.BoolVar(&j.untilEOF, "until-eof", false, "end when standard input ends, and keep no data: for nodes that a run starts")
	f.BoolVar(&j.untilLost, "until-lost", false, "end when there was no hub for a minute, and keep no data: for jobs that a run submits")
	f.StringVar(&j.bee, "bee", "", "run workers under the loader `FILE`")
	f.StringVar(&j.keys, "update-keys", "", "as root, pin the operators' keys in `FILE`: this machine then applies only kernel updates that they signed")
	j.labels.options(f)
	j.allow.options(f)
}

func (j *join) run(ctx context.Context, f *cli.Flags, words []string) error {
	var err error
	if j.token, err = readToken(f, j.token, j.tokenFile, os.Stdin); err != nil {
		return err
	}
	address, err := j.hubAddress(f, words)
	if err != nil {
		return err
	}
	if err := checkSlots(f, j.slots); err != nil {
		return err
	}
	if j.untilEOF || j.untilLost {
		if j.only || j.token == "" || f.Given("token-file") || f.Given("state") {
			return f.Usagef("--until-eof and --until-lost need a token that does not come from a file, and keep no state")
		}
		if j.state, err = os.MkdirTemp("", "skep-join-"); err != nil {
			return err
		}
		defer os.RemoveAll(j.state)
	}
	if j.untilEOF {
		var stop func()
		ctx, stop = untilEOF(ctx, os.Stdin)
		defer stop()
	}
	dir, err := stateDir(j.state)
	if err != nil {
		return err
	}
	c := agent.Config{State: agentState(dir), Hub: address, Name: j.name, Version: version,
		Labels: j.labels, Slots: j.slots, Bee: j.bee, Log: agentLog}
	if j.untilLost {
		c.Lost = lostLimit
	}
	if !j.only {
		c.Leave = restartSignals()
	}
	j.allow.apply(&c, dir)
	if err := takeRolls(&c); err != nil {
		return err
	}
	if j.only && j.token == "" {
		return f.Usagef("--only joins with a token: give --token-file FILE")
	}
	if j.keys != "" {
		// Before the join, so that no hub is ever trusted without keys.
		if err := pinKeys(j.keys, false, false); err != nil {
			return err
		}
	}
	if j.token != "" {
		if _, err := ident.ParseToken(j.token); err != nil {
			return cli.WithCode(cli.Usage, err)
		}
		if err := agent.Join(ctx, c, address, j.token); err != nil {
			return joinError(err)
		}
		fmt.Printf("joined the hub at %s\n", address)
	}
	if j.only {
		return nil
	}
	if err := runAgent(ctx, c); !errors.Is(err, agent.ErrLeft) {
		return joinError(err)
	}
	return restartError(agent.ErrLeft)
}

// untilEOF returns a context that input's end cancels.
func untilEOF(parent context.Context, input io.Reader) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		_, _ = io.Copy(io.Discard, input) // an input that cannot be read has ended too
		cancel()
	}()
	return ctx, cancel
}

// runAgent runs an agent. If systemd started it, runAgent reports its status to systemd.
func runAgent(ctx context.Context, c agent.Config) error {
	notifier := openNotifier(ctx)
	c.Status = notifier.Status
	ready := sync.OnceFunc(func() { notifier.Ready("looks for the hub") })
	c.Alive = func() { ready(); notifier.Alive() }
	hurry := make(chan os.Signal, 1)
	c.Hurry = hurry
	defer signal.Stop(hurry)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(hurryAfter, func() { signal.Notify(hurry, os.Interrupt, syscall.SIGTERM) })
		notifier.Stopping()
	})()
	return agent.Run(ctx, c)
}

// openNotifier gives the notifier of ctx, or opens systemd's notification socket.
func openNotifier(ctx context.Context) *service.Notifier {
	n, err := service.NewNotifier(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%sskep: the socket of systemd cannot be used: %v\n", service.Priority(os.Stderr, slog.LevelWarn), err)
	}
	return n
}

// hubAddress returns the hub's address: the one given, or without a token that of an
// earlier join.
func (j *join) hubAddress(f *cli.Flags, words []string) (string, error) {
	if len(words) > 1 {
		return "", f.RefuseArgs(words[1:])
	}
	if len(words) == 0 {
		if j.token != "" {
			return "", f.Expectf("the hub's HOST:PORT is expected")
		}
		return "", nil
	}
	return withPort(words[0]), nil
}

// withPort adds the usual port to the address of a hub.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return net.JoinHostPort(address, fmt.Sprint(proto.DefaultPort))
	}
	return address
}

// joinError adds an exit code to an agent's error.
func joinError(err error) error {
	var dial *net.OpError
	switch {
	case errors.Is(err, ident.ErrWrongHub), errors.Is(err, ident.ErrOtherHub), errors.Is(err, ident.ErrClock):
		return cli.WithCode(cli.Refused, err)
	case errors.Is(err, ident.ErrNotAdmitted), errors.Is(err, ident.ErrCloned):
		return cli.WithCode(cli.Usage, err)
	case errors.As(err, &dial), errors.Is(err, context.DeadlineExceeded), errors.Is(err, agent.ErrLost):
		return cli.WithCode(cli.Unreachable, err)
	}
	return withExitCode(err)
}
