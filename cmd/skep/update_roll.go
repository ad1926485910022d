// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/grid/agent"
	"skep/grid/hub"
	"skep/grid/proto"
	"skep/grid/rolls"
	"skep/internal/cli"
	"skep/internal/uapi"
	lent "skep/shimos/part"
)

// takeRolls has an agent take part in rolls: root's agent itself, another one through
// the service kernel, if that runs.
func takeRolls(c *agent.Config) error {
	holdUpdates(c)
	c.Kernel = func() proto.Kernel { return kernelFacts("/proc", lent.List) }
	if os.Geteuid() != 0 {
		c.RollSocket = rollSocket
		return nil
	}
	n, err := update.NewRollNode(newTrust(), newKeep())
	if err == nil {
		c.Rolls = n.Rolls()
	}
	return err
}

type updateRoll struct {
	state          string
	waves          string
	canary, policy string
	per            string
	trial, settle  time.Duration
	unavailable    int
	health         watched
	supersede      bool
	detach         bool
}

func (u *updateRoll) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.StringVar(&u.waves, "waves", "1,5%,25%,all", "how many nodes run it, in `STEPS`: numbers, then percentages, then all")
	f.StringVar(&u.canary, "canary", "", "the first `POLICY` on each node (a tenth of --policy, see --per)")
	f.StringVar(&u.per, "per", "", "of what a tenth gets it first on each node: `UNIT` is uid (users), cgroup, or share (processes, the default)")
	f.StringVar(&u.policy, "policy", "", "the whole `POLICY` (the widest that was signed)")
	f.DurationVar(&u.trial, "canary-time", roll.DefaultTimes.Canary, "how long a node keeps the first policy: `TIME`")
	f.DurationVar(&u.settle, "settle", roll.DefaultTimes.Settle, "how long a wave keeps the whole policy: `TIME`")
	f.IntVar(&u.unavailable, "max-unavailable", 1, "continue while at most `N` nodes are silent or failed")
	u.health.options(f)
	f.BoolVar(&u.supersede, "supersede", false, "older updates of the same functions leave when it is committed; if it is reverted, they stay")
	f.BoolVar(&u.detach, "detach", false, "begin, and do not show the progress")
}

// perUnits are the values of --per.
var perUnits = map[string]uint32{"": uapi.DynamosPerProcess, "share": uapi.DynamosPerProcess, "uid": uapi.DynamosPerUID, "cgroup": uapi.DynamosPerCgroup}

// canaryOf narrows a policy to a tenth of its processes, users or cgroups. A share that the
// policy has is a share of the same units, of which it takes a tenth.
func canaryOf(p trust.Policy, unit string) (trust.Policy, error) {
	per := perUnits[unit]
	allow := p.Allow
	if p.Others {
		allow = []trust.Rule{{}}
	}
	narrow := trust.Policy{Except: p.Except}
	for _, r := range allow {
		if r.Terms&uapi.DynamosShare == 0 {
			r.Terms |= uapi.DynamosShare
			r.Share, r.Per = uapi.DynamosShareMax, per
		}
		if unit != "" && r.Per != per {
			return p, cli.Errorf(cli.Refused, "the policy has a share already, %s, and a tenth of other units is no part of it: leave --per out", r)
		}
		r.Share = max(1, r.Share/10)
		narrow.Allow = append(narrow.Allow, r)
	}
	return narrow, nil
}

// statementOf returns what the operators state about a package. Nodes verify it; here it
// only gives defaults.
func statementOf(p *pack.Package) (s trust.Package, err error) {
	if len(p.Signatures) == 0 {
		return s, cli.Errorf(cli.Refused, "nobody signed %s, and nodes take only what their operators signed: 'skep update sign' signs it", p.Name)
	}
	doc, err := trust.ParseSigned(p.Signatures)
	if err == nil {
		s, err = trust.ParsePackage(doc.Text)
	}
	return s, err
}

// statementOfAll returns what the operators state about the packages of one update: the
// shortest trial, and the widest policy, which must be the same for all unless one is given.
func (u *updateRoll) statementOfAll(packages []*pack.Package) (s trust.Package, err error) {
	for i, p := range packages {
		one, err := statementOf(p)
		if err != nil {
			return s, err
		}
		if i > 0 && u.policy == "" && one.Widest.String() != s.Widest.String() {
			return s, cli.Errorf(cli.Refused, "the packages were signed for different policies (%s, and %s): give --policy", s.Widest, one.Widest)
		}
		if i == 0 {
			s = one
		}
		s.Trial = min(s.Trial, one.Trial)
	}
	return s, nil
}

// first returns the first policy on each node, which is a part of the whole one.
func (u *updateRoll) first(f *cli.Flags, full trust.Policy) (trust.Policy, error) {
	_, known := perUnits[u.per]
	switch {
	case !known:
		return full, f.Usagef("--per takes uid, cgroup or share")
	case u.canary != "" && f.Given("per"):
		return full, f.Usagef("--canary is the whole first policy: leave --per out, or write --canary 'share=10%%:uid'")
	case u.canary == "":
		return canaryOf(full, u.per)
	}
	p, err := trust.ParsePolicy(u.canary)
	if err != nil {
		return p, f.Usagef("--canary: %v", err)
	}
	return p, nil
}

// request reads the options.
func (u *updateRoll) request(f *cli.Flags, packages []*pack.Package) (v hub.RollRequest, err error) {
	s, err := u.statementOfAll(packages)
	if err != nil {
		return v, err
	}
	waves, err := roll.ParseWaves(u.waves)
	if err != nil {
		return v, f.Usagef("--waves: %v", err)
	}
	full := s.Widest
	if u.policy != "" {
		if full, err = trust.ParsePolicy(u.policy); err != nil {
			return v, f.Usagef("--policy: %v", err)
		}
	}
	canary, err := u.first(f, full)
	if err != nil {
		return v, err
	}
	h, err := u.health.encode(f)
	if err != nil {
		return v, err
	}
	times := roll.DefaultTimes
	times.Canary, times.Settle = u.trial, u.settle
	if min(u.trial, u.settle) <= 0 {
		return v, f.Usagef("--canary-time and --settle take times, as 90s or 10m")
	}
	v.Spec = rolls.Spec{Name: packages[0].Name, Canary: canary.String(), Policy: full.String(), Trial: s.Trial, Lease: times.Lease, Supersede: u.supersede,
		Health: rolls.Health{Least: h.Least, Errors: h.Errors, Latency: max(h.Latency, update.Longer) - update.Longer, Stuck: time.Duration(h.Stuck)}}
	v.Plan = roll.Plan{Waves: waves, Times: times, MaxUnavailable: u.unavailable,
		Rules: roll.Rules{Least: uint64(h.Least), Errors: uint64(h.Errors)}}
	return v, nil
}

func (u *updateRoll) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a package is expected")
	}
	var packages []*pack.Package
	for _, word := range words {
		p, err := openPackage(word)
		if err != nil {
			return err
		}
		packages = append(packages, p)
	}
	if _, err := rolls.NewVariants(words, packages); err != nil {
		return cli.WithCode(cli.Refused, err)
	}
	v, err := u.request(f, packages)
	if err == nil {
		err = rolls.CheckObjects(packages)
	}
	if err != nil {
		return updateError(err)
	}
	c, err := openControl(u.state)
	if err != nil {
		return err
	}
	if err := sendPackages(ctx, c, words, &v.Spec); err != nil {
		return withExitCode(err)
	}
	p := packages[0]
	if _, err := c.BeginRoll(ctx, v); err != nil {
		return withExitCode(err)
	}
	if u.detach {
		_, err := fmt.Printf("%s: the roll begins; 'skep update rolls %s' shows it\n", p.Name, p.Name)
		return err
	}
	return followRoll(ctx, c, p.Name)
}

// sendPackages stores packages at the hub, and names them in a specification.
func sendPackages(ctx context.Context, c *hub.Client, files []string, s *rolls.Spec) error {
	for i, name := range files {
		file, err := c.Package(ctx, name)
		if err != nil {
			return err
		}
		if i == 0 {
			s.Package = file.Digest
		}
		if len(files) > 1 {
			s.Variants = append(s.Variants, rolls.Variant{Package: file.Digest})
		}
	}
	return nil
}

// followPoll is how often a roll is asked about.
const followPoll = 500 * time.Millisecond

// followRoll prints a roll's log until the roll is over.
func followRoll(ctx context.Context, c *hub.Client, name string) error {
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for shown := 0; ; {
		list, err := c.Rolls(ctx, name)
		if ctx.Err() != nil {
			fmt.Fprintf(os.Stderr, "skep: the roll continues: 'skep update rolls %s' shows it, and --stop %s stops it\n", name, name)
			return ctx.Err()
		}
		if err != nil {
			return withExitCode(err)
		}
		s := &list[0]
		for ; shown < len(s.Log); shown++ {
			if _, err := fmt.Printf("%s %s\n", s.Log[shown].Time.Local().Format(time.TimeOnly), cli.CleanText(s.Log[shown].Text)); err != nil {
				return err
			}
		}
		switch s.State {
		case roll.Done.String():
			return nil
		case roll.Stopped.String():
			return cli.Errorf(cli.Failed, "the roll of %s was stopped: %s", name, cli.CleanText(s.Why))
		case rolls.Damaged: // the hub started again
			return cli.Errorf(cli.Failed, "%s", cli.CleanText(s.Why))
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		}
	}
}

type updateRolls struct {
	state string
	audit string
	json  bool
	acts  map[string]*string
}

func (u *updateRolls) options(f *cli.Flags) {
	u.acts = map[string]*string{}
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
	f.StringVar(&u.audit, "audit", "", "verify and print who did what, when and by which keys in the roll of `NAME`")
	for _, a := range []struct{ name, help string }{
		{rolls.ActionPause, "add no more nodes to the roll of the update `NAME`"},
		{rolls.ActionResume, "continue the paused roll of `NAME`"},
		{rolls.ActionStop, "stop the roll of `NAME`: all nodes that did not commit revert the update"},
		{rolls.ActionForget, "remove the roll of `NAME`, which is over, from the list"},
	} {
		u.acts[a.name] = f.String(a.name, "", a.help)
	}
}

func (u *updateRolls) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) > 1 {
		return f.RefuseArgs(words[1:])
	}
	given := []string{}
	for action := range u.acts {
		if f.Given(action) {
			given = append(given, action)
		}
	}
	if len(given) > 1 || len(given) == 1 && (len(words) > 0 || *u.acts[given[0]] == "") {
		return f.Usagef("give one of --pause, --resume, --stop and --forget, with the name of an update")
	}
	c, err := openControl(u.state)
	if err != nil {
		return err
	}
	if f.Given("audit") {
		if u.audit == "" || len(words)+len(given) > 0 || u.json {
			return f.Usagef("--audit takes the name of an update, and nothing else")
		}
		return auditRoll(ctx, c, u.audit)
	}
	if len(given) == 1 {
		return withExitCode(c.ChangeRoll(ctx, *u.acts[given[0]], given[0]))
	}
	name := ""
	if len(words) > 0 {
		name = words[0]
	}
	list, err := c.Rolls(ctx, name)
	if err != nil {
		return withExitCode(err)
	}
	switch {
	case u.json:
		return cli.PrintJSON(os.Stdout, list)
	case name != "":
		return showRoll(&list[0])
	case len(list) == 0:
		_, err := fmt.Println("there is no roll: 'skep update roll FILE' begins one")
		return err
	}
	return showRolls(list)
}

// auditRoll verifies the audit log of a roll with the keys that this machine has pinned, and
// prints it.
func auditRoll(ctx context.Context, c *hub.Client, name string) error {
	keys, err := newTrust().Load()
	if err != nil {
		return updateError(err)
	}
	a, err := c.AuditRoll(ctx, name)
	if err != nil {
		return withExitCode(err)
	}
	about, seen, err := a.Verify(keys, name)
	if err != nil {
		return updateError(err)
	}
	if len(about) == 0 {
		return cli.Errorf(cli.Refused, "the audit log says nothing of %s", name)
	}
	if err := followsSeen(&a); err != nil {
		return updateError(err)
	}
	for _, line := range about {
		if _, err := fmt.Println(cli.CleanText(line)); err != nil {
			return err
		}
	}
	_, err = fmt.Printf("%d lines of %d, which follow one another, and operators signed the order; the log's digest is %d:%s\n", len(about), seen.Lines, seen.Lines, seen.Root)
	return err
}

// seenFile is where the service kernel of this machine stores how far it saw its hub's log.
var seenFile = filepath.Join(rollState, rolls.SeenFile)

// followsSeen compares the log with what this machine has seen as a node. Who may not read
// that compares nothing.
func followsSeen(a *rolls.Audit) error {
	at, err := rolls.ReadSeen(seenFile)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err == nil {
		err = a.Continues(at)
	}
	return err
}

// showRolls prints a line for each roll.
func showRolls(list []rolls.Status) error {
	table := cli.NewTable("UPDATE", "STATE", "WAVE", "NODES", "RUN IT", "COMMITTED", "LEFT OUT", "BEGAN", "WHY")
	for i := range list {
		s := &list[i]
		n := s.Sums()
		table.Row(s.Spec.Name, s.State, fmt.Sprintf("%d/%d", s.Wave, s.Waves), len(s.Nodes), n.Run, n.Committed, n.Left, cli.FormatAgo(s.Began), orDash(s.Why))
	}
	return table.Write(os.Stdout)
}

// showFigures prints both versions of each function on each node where the update is loaded.
func showFigures(w io.Writer, s *rolls.Status) error {
	if len(s.Functions()) == 0 {
		return nil
	}
	table := cli.NewTable("FUNCTION", "NODE", "VERSION", "CALLS", "INSIDE", "ERRORS", "P50", "P99")
	for _, n := range s.Nodes {
		for _, f := range n.Functions {
			if f.Uncounted {
				table.Row(f.Symbol, n.Name, "both", notCounted, "-", "-", "-", "-")
				continue
			}
			table.Row(f.Symbol, n.Name, "old", f.Old.Calls, f.Old.Inside, f.Old.Errors, latencyText(f.Old.P50, f.Old.P50), latencyText(f.Old.P99, f.Old.P99))
			table.Row("", "", "new", f.New.Calls, f.New.Inside, f.New.Errors, latencyText(f.New.P50, f.New.P50), latencyText(f.New.P99, f.New.P99))
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table.Write(w)
}

// showRoll prints the nodes of one roll, and its log.
func showRoll(s *rolls.Status) error {
	why := ""
	if s.Why != "" {
		why = ": " + cli.CleanText(s.Why)
	}
	if _, err := fmt.Printf("%s: %s%s; wave %d of %d\nfirst for %s\nthen for %s\n\n", s.Spec.Name, s.State, why, s.Wave, s.Waves,
		cli.CleanText(s.Spec.Canary), cli.CleanText(s.Spec.Policy)); err != nil {
		return err
	}
	table := cli.NewTable("NODE", "HAS", "SHALL HAVE", "HEARD", "OLD CALLS", "NEW CALLS", "NEW ERRORS", "LEFT OUT, WAITS, INSIDE")
	for _, n := range s.Nodes {
		note := n.Failed
		if note == "" {
			note = n.Waits
		}
		for _, task := range n.Inside {
			note += " [" + task + "]"
		}
		table.Row(n.Name, n.Phase, n.Goal, n.Heard(), n.Health.OldCalls, n.Health.NewCalls, n.Health.NewErrors, orDash(note))
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	if err := showFigures(os.Stdout, s); err != nil {
		return err
	}
	fmt.Println()
	for _, e := range s.Log {
		if _, err := fmt.Printf("%s %s\n", e.Time.Local().Format(time.DateTime), cli.CleanText(e.Text)); err != nil {
			return err
		}
	}
	return nil
}
