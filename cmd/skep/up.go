// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/grid/sched"
	"skep/internal/cli"
	"skep/internal/service"
)

type up struct {
	listen    string
	advertise string
	state     string
	name      string
	slots     int
	uses      int
	expires   time.Duration
	noAgent   bool
	noToken   bool
	bee       string
	verbose   bool
	allow     allowances
	labels    labels
	keepRuns  time.Duration
	keepNodes time.Duration
	quotas    hub.Quotas
	standby   string
	tokenFile string
	alone     bool
	signals   <-chan os.Signal // they ask for a restart
}

func (u *up) options(f *cli.Flags) {
	f.StringVar(&u.listen, "listen", "", "listen for agents on `HOST:PORT` (all addresses, port 4860)")
	f.StringVar(&u.advertise, "advertise", "", "print `HOST:PORT` in join commands")
	f.StringVar(&u.state, "state", "", "keep data in `DIR`")
	f.StringVar(&u.name, "name", "", "call this machine's node `NAME` (the machine's name)")
	f.IntVar(&u.slots, "slots", 0, "run `N` workers at a time on this machine (one per CPU)")
	f.IntVar(&u.uses, "uses", 1, "let `N` machines join with the first token (1)")
	f.DurationVar(&u.expires, "expires", defaultExpiry, "let the first token expire after `TIME`, such as 30m or 72h (24h)")
	f.BoolVar(&u.noAgent, "no-agent", false, "do not make this machine a node")
	f.BoolVar(&u.noToken, "no-token", false, "make and print no first token: 'skep token' prints one")
	f.StringVar(&u.bee, "bee", "", "run workers on Linux under the loader `FILE`, for tests")
	u.labels.options(f)
	u.allow.options(f)
	size(f, &u.quotas.Hub, "quota-hub", "store at most `SIZE` of arguments, results and Initialize data (9/10 of what is free)")
	size(f, &u.quotas.Session, "quota-session", "store at most `SIZE` of these for one master (the same)")
	size(f, &u.quotas.Node, "quota-node", "store at most `SIZE` of results from one node (3/4 of the total)")
	f.DurationVar(&u.keepRuns, "keep-runs", 0, "keep runs for `TIME` until they reconnect, if this hub is killed and started again, or a user's connection breaks (2m)")
	f.DurationVar(&u.keepNodes, "keep-nodes", sched.KeepDefault, "keep the calls of a node that is away for `TIME` until it comes back; 0: not at all (2m)")
	f.StringVar(&u.standby, "standby", "", "stand by for the hub at `HOST:PORT`, with a token of 'skep standby token' in SKEP_TOKEN")
	f.StringVar(&u.tokenFile, "token-file", "", "with --standby: read the token from `FILE`, or from standard input if it is -")
	f.BoolVar(&u.alone, "alone", false, "start although this hub's standby does not say that it did not take over")
	f.BoolVar(&u.verbose, "verbose", false, "print more log messages")
}

// size defines an option whose value is a size such as 512M.
func size(f *cli.Flags, to *uint64, name, usage string) {
	f.Func(name, usage, func(text string) (err error) {
		if *to, err = cli.ParseBytes(text); err == nil && *to == 0 {
			err = fmt.Errorf("it must not be 0")
		}
		return err
	})
}

func (u *up) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if err := u.check(f); err != nil {
		return err
	}
	dir, err := stateDir(u.state)
	if err != nil {
		return err
	}
	if err := refuseAccount(dir); err != nil {
		return err
	}
	u.signals = restartSignals() // from here on, lest one ends the hub while it starts
	notifier := openNotifier(ctx)
	config := hub.Config{State: hubState(dir), Listen: u.listen, Advertise: u.advertise, Fenced: endFenced,
		Version: version, Quotas: u.quotas, Keep: true, Hold: u.keepRuns, Sched: sched.Config{Keep: cmp.Or(u.keepNodes, -1)}, Log: newLogger(u.verbose)}
	if u.standby != "" || hub.IsStandby(config.State) {
		listen, done, err := u.standBy(ctx, f, config, notifier)
		if done {
			return err
		}
		config.Listen = listen
	} else if err := u.askStandby(ctx, config.State); err != nil || ctx.Err() != nil {
		return err
	}
	h, err := hub.Open(config)
	if errors.Is(err, hub.ErrOver) {
		return cli.WithCode(cli.Refused, err)
	}
	if err != nil {
		return err
	}
	defer h.Close()
	c, err := openControl(dir)
	if err != nil {
		return err
	}
	if err := u.announce(ctx, h, c); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	failed := make(chan error, 1)
	if !u.noAgent {
		go func() { failed <- u.runAgent(ctx, h, dir) }()
	}
	notifier.Ready(fmt.Sprintf("listens on %s", h.Address()))
	go notifier.Watch(ctx, func(ctx context.Context) error { _, err := c.Status(ctx); return err })
	go u.restartIdle(ctx, h, notifier, stop)
	select {
	case <-ctx.Done():
		notifier.Stopping()
		if !u.noAgent {
			<-failed
		}
		return restartError(context.Cause(ctx))
	case err := <-failed:
		return err
	}
}

var errRestart = errors.New("a restart was asked for")

// restartIdle waits for the signal that asks for a restart, then until the hub is idle.
func (u *up) restartIdle(ctx context.Context, h *hub.Hub, n *service.Notifier, stop context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-u.signals:
	}
	if h.CloseIdle(ctx, func() { n.Status("restarts when the programs that run have ended") }) {
		stop(errRestart)
	}
}

// restartError has a program that was asked to restart end with the code after which
// its unit starts it again.
func restartError(why error) error {
	if errors.Is(why, errRestart) || errors.Is(why, agent.ErrLeft) {
		return cli.Errorf(cli.Restart, "ended because SIGUSR1 asked for a restart; a service is started again")
	}
	return nil
}

// announce prints the hub's address and a join command.
func (u *up) announce(ctx context.Context, h *hub.Hub, c *hub.Client) error {
	if _, err := fmt.Printf("skep %s: the hub listens on %s\n", version, h.Address()); err != nil || u.noToken {
		return err
	}
	return printToken(ctx, c, u.uses, u.expires)
}

// runAgent runs the hub's own agent.
func (u *up) runAgent(ctx context.Context, h *hub.Hub, dir string) error {
	c := agent.Config{State: agentState(dir), Name: u.name, Labels: u.labels, Version: version, Slots: u.slots, Bee: u.bee, Log: agentLog}
	u.allow.apply(&c, dir)
	if err := takeRolls(&c); err != nil {
		return err
	}
	if err := joinHere(ctx, h, &c); err != nil {
		return err
	}
	return agent.Run(ctx, c)
}

const localTokenLife = time.Minute

// joinHere joins an agent to the hub of the same process, like any other agent, except that
// arguments and results need no connection. It does so at each start, because the hub's port
// may have changed.
func joinHere(ctx context.Context, h *hub.Hub, c *agent.Config) error {
	address, ok := h.Address().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("the hub listens on %v, which is not a TCP address", h.Address())
	}
	host := "127.0.0.1"
	if !address.IP.IsUnspecified() {
		host = address.IP.String()
	}
	c.Hub, c.Near = net.JoinHostPort(host, fmt.Sprint(address.Port)), h
	token, err := h.Tokens().New(1, localTokenLife)
	if err != nil {
		return err
	}
	if err := agent.Join(ctx, *c, c.Hub, token.String()); err != nil {
		return fmt.Errorf("the hub's own agent did not join: %w", err)
	}
	return nil
}

func agentLog(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%sagent: %s\n", service.Priority(os.Stderr, slog.LevelInfo), cli.CleanText(fmt.Sprintf(format, args...)))
}

func newLogger(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	if service.IsJournal(os.Stderr) {
		return slog.New(service.NewJournalHandler(os.Stderr, level))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

const slotsMax = 4096

// check checks the options. It does not examine the machine.
func (u *up) check(f *cli.Flags) error {
	if err := checkSlots(f, u.slots); err != nil {
		return err
	}
	if err := checkToken(f, u.uses, u.expires); err != nil {
		return err
	}
	if f.Given("keep-runs") && u.keepRuns <= 0 {
		return f.Usagef("--keep-runs wants a time such as 5m, not %v", u.keepRuns)
	}
	if u.keepNodes < 0 {
		return f.Usagef("--keep-nodes wants a time such as 5m, or 0, not %v", u.keepNodes)
	}
	return u.checkAddresses(f)
}

func (u *up) checkAddresses(f *cli.Flags) error {
	if u.listen != "" {
		if _, err := net.ResolveTCPAddr("tcp", u.listen); err != nil {
			return f.Usagef("--listen wants HOST:PORT, or :PORT for all addresses: %v", err)
		}
	}
	if u.standby != "" {
		if host, port, err := net.SplitHostPort(u.standby); err != nil || host == "" || port == "" {
			return f.Usagef("--standby wants HOST:PORT, where the hub is, not %q", u.standby)
		}
	}
	if u.tokenFile != "" && u.standby == "" {
		return f.Usagef("--token-file is for --standby: a hub needs no token")
	}
	if u.alone && u.standby != "" {
		return f.Usagef("--alone is for a hub, and --standby for its standby: take one")
	}
	if u.advertise != "" {
		if host, port, err := net.SplitHostPort(u.advertise); err != nil || host == "" || port == "" {
			return f.Usagef("--advertise wants HOST:PORT, as other machines reach the hub, not %q", u.advertise)
		}
	}
	return nil
}

func checkSlots(f *cli.Flags, slots int) error {
	if f.Given("slots") && slots < 1 || slots < 0 || slots > slotsMax {
		return f.Usagef("--slots %d is not between 1 and %d", slots, slotsMax)
	}
	return nil
}
