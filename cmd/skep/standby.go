// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
	"skep/internal/service"
)

func standbyWords() []command {
	return []command{
		{name: "standby token", usage: "standby token [--state DIR]", runner: &standbyToken{},
			summary: "print a command that makes another machine the hub's standby"},
		{name: "standby show", usage: "standby show [--json] [--state DIR]", runner: &standbyShow{},
			summary: "say whether the standby has everything, on the hub or on the standby"},
		{name: "standby promote", usage: "standby promote [--force] [--state DIR]", runner: &standbyPromote{},
			summary: "make the standby that runs here the hub"},
		{name: "standby forget", usage: "standby forget [--state DIR]", runner: &standbyForget{},
			summary: "have the hub that runs here go on without its standby"},
	}
}

type standbyToken struct{ state string }

func (t *standbyToken) options(f *cli.Flags) {
	f.StringVar(&t.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (t *standbyToken) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(t.state)
	if err != nil {
		return err
	}
	answer, err := c.StandbyToken(ctx)
	if err != nil {
		return withExitCode(err)
	}
	if _, err = fmt.Printf("%s=%s skep up --standby %s\n", tokenVariable, answer.Token, answer.Address); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "skep: whoever has this token gets the hub's private keys: type the line on the standby within a day, and show it to nobody")
	return nil
}

type standbyShow struct {
	state string
	json  bool
}

func (s *standbyShow) options(f *cli.Flags) {
	f.StringVar(&s.state, "state", "", "`DIR`, as given to skep up")
	f.BoolVar(&s.json, "json", false, "print JSON")
}

func (s *standbyShow) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(s.state)
	if err != nil {
		return err
	}
	i, err := c.Standby(ctx)
	if err != nil {
		return withExitCode(err)
	}
	if s.json {
		return cli.PrintJSON(os.Stdout, i)
	}
	_, err = fmt.Println(describeStandby(i))
	return err
}

// describeStandby says what would be lost if the hub died now.
func describeStandby(i hub.StandbyInfo) string {
	where := fmt.Sprintf("the standby at %s", i.Address)
	if i.Standby {
		where = fmt.Sprintf("this machine stands by for the hub at %s, and", i.Hub)
	}
	switch i.State {
	case hub.StandbyNone:
		return "this hub has no standby: 'skep standby token' prints the command for one"
	case hub.StandbyWhole:
		return where + " has everything"
	case hub.StandbyCopies:
		return where + " does not have everything yet: the copy has begun"
	}
	if i.Standby && i.Since.IsZero() {
		return where + " has not reached it"
	}
	if i.Standby {
		return fmt.Sprintf("%s lost it at %s: what the hub accepted after that is not here", where, i.Since.Local().Format(time.DateTime))
	}
	return where + " is away: what this hub accepts now is on this machine alone"
}

type standbyPromote struct {
	state string
	force bool
}

func (p *standbyPromote) options(f *cli.Flags) {
	f.StringVar(&p.state, "state", "", "the standby's `DIR`, as given to skep up")
	f.BoolVar(&p.force, "force", false, "take over also if the hub does not answer: it is dead, or is to be taken for dead")
}

func (p *standbyPromote) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(p.state)
	if err != nil {
		return err
	}
	if err := c.Promote(ctx, hub.PromoteRequest{Force: p.force}); err != nil {
		return withExitCode(err)
	}
	_, err = fmt.Println("this machine is the hub now; nodes and users come by themselves")
	return err
}

type standbyForget struct{ state string }

func (s *standbyForget) options(f *cli.Flags) {
	f.StringVar(&s.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (s *standbyForget) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(s.state)
	if err != nil {
		return err
	}
	return withExitCode(c.ForgetStandby(ctx))
}

// standBy runs the standby until it is promoted, and returns the address that the hub is to listen
// on. done: there is nothing more to do.
func (u *up) standBy(ctx context.Context, f *cli.Flags, config hub.Config, n *service.Notifier) (listen string, done bool, err error) {
	token, err := readToken(f, "", u.tokenFile, os.Stdin)
	if err != nil {
		return "", true, err
	}
	if u.standby != "" && token == "" && !hub.IsStandby(config.State) {
		return "", true, f.Usagef("--standby wants the token that 'skep standby token' prints on the hub, in %s or with --token-file", tokenVariable)
	}
	config.Stands = func(i hub.StandbyInfo) { fmt.Fprintln(os.Stderr, "skep:", describeStandby(i)) }
	s, err := hub.OpenStandby(ctx, config, u.standby, token)
	if err != nil {
		return "", true, withExitCode(err)
	}
	defer s.Close()
	if _, err := fmt.Printf("skep %s: stands by for the hub at %s, and listens on %s\n", version, s.Info().Hub, s.Address()); err != nil {
		return "", true, err
	}
	n.Ready(fmt.Sprintf("stands by for the hub at %s", s.Info().Hub))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	local := hub.NewClient(hub.ControlSocket(config.State))
	go n.Watch(ctx, func(ctx context.Context) error { _, err := local.Standby(ctx); return err })
	select {
	case <-ctx.Done():
		n.Stopping()
		return "", true, nil
	case <-u.signals:
		return "", true, restartError(errRestart)
	case <-s.Promoted():
		return s.Address().String(), false, nil
	}
}

const askEvery = time.Second

// askStandby waits until the standby of this hub says whether it took over.
func (u *up) askStandby(ctx context.Context, state string) error {
	if u.alone {
		return nil
	}
	for said := false; ; said = true {
		try, cancel := context.WithTimeout(ctx, 10*askEvery)
		err := hub.AskStandby(try, state)
		cancel()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, hub.ErrOver) {
			return cli.WithCode(cli.Refused, err)
		}
		if !errors.Is(err, hub.ErrNobodyKnows) {
			return err
		}
		if !said {
			fmt.Fprintf(os.Stderr, "skep: %v: two hubs must not work; if it did not take over, and will not, 'skep up --alone' does not wait\n", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askEvery):
		}
	}
}

// endFenced ends the program at once, without a word to masters and nodes.
func endFenced(err error) {
	fmt.Fprintln(os.Stderr, "skep:", err)
	os.Exit(cli.Refused)
}
