// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"skep/grid/agent"
	"skep/grid/policy"
	"skep/grid/policy/sources"
	"skep/internal/cli"
)

// whyBetween lets processor use be measured between two readings.
const whyBetween = 2100 * time.Millisecond

type policyWhy struct {
	state string
	json  bool
}

func (p *policyWhy) options(f *cli.Flags) {
	f.StringVar(&p.state, "state", "", "the agent's `DIR`, as given to skep join")
	f.BoolVar(&p.json, "json", false, "print JSON, for programs")
}

// A whyFact is one line of the table.
type whyFact struct {
	Name  string `json:"name"`
	Value string `json:"value"` // empty: unknown
	From  string `json:"from"`
}

type whyRule struct {
	Line  int    `json:"line"`
	Text  string `json:"text"`
	Holds string `json:"holds"` // yes, no, unknown
}

type why struct {
	Facts []whyFact         `json:"facts"`
	Rules []whyRule         `json:"rules,omitempty"`
	Now   string            `json:"now,omitempty"`
	Agent *agent.OwnerState `json:"agent,omitempty"`
}

func (p *policyWhy) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) > 1 {
		return f.RefuseArgs(words[1:])
	}
	dir, err := stateDir(p.state)
	if err != nil {
		return err
	}
	var w why
	if w.Agent, err = readOwnerState(agentState(dir)); err != nil {
		return err
	}
	name := ""
	if w.Agent != nil {
		name = w.Agent.Policy
	}
	if len(words) > 0 {
		name = words[0]
	}
	var rules *policy.Policy
	if name != "" {
		if rules, err = readPolicy(name); err != nil {
			return cli.WithCode(cli.Usage, err)
		}
	}
	facts, err := readFacts(ctx)
	if err != nil {
		return err
	}
	w.Facts = listFacts(facts)
	if rules != nil {
		w.judge(rules, facts, runtime.NumCPU())
	}
	if p.json {
		return cli.PrintJSON(os.Stdout, &w)
	}
	return w.print(name)
}

// readOwnerState reads what the agent wrote down; nil: no agent with a policy ran here.
func readOwnerState(dir string) (*agent.OwnerState, error) {
	text, err := os.ReadFile(filepath.Join(dir, agent.OwnerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s agent.OwnerState
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return nil, fmt.Errorf("what the agent does cannot be read: %w", err)
	}
	return &s, nil
}

func readFacts(ctx context.Context) (*policy.Facts, error) {
	r := sources.NewReader(nil)
	defer r.Close()
	r.Read(time.Now())
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(whyBetween):
	}
	return r.Read(time.Now()), nil
}

func listFacts(f *policy.Facts) []whyFact {
	list := []whyFact{{"time", f.Time.Format("Mon 15:04"), "the local clock"}}
	list = append(list, whyFact{"idle", valueOf(f.Idle, f.Idle.Value.Round(time.Second).String()), f.Idle.From})
	for _, v := range []struct {
		kind policy.Kind
		fact policy.Fact[float64]
	}{{policy.Others, f.Others}, {policy.Charge, f.Charge}, {policy.MemoryPressure, f.MemoryPressure}, {policy.IOPressure, f.IOPressure}} {
		list = append(list, whyFact{v.kind.String(), valueOf(v.fact, fmt.Sprintf("%.1f%%", v.fact.Value)), v.fact.From})
	}
	for _, v := range []struct {
		kind policy.Kind
		fact policy.Fact[bool]
	}{{policy.Battery, f.Battery}, {policy.FullScreen, f.FullScreen}, {policy.Remote, f.Remote}, {policy.Metered, f.Metered}} {
		text := "no"
		if v.fact.Value {
			text = "yes"
		}
		list = append(list, whyFact{v.kind.String(), valueOf(v.fact, text), v.fact.From})
	}
	return list
}

// valueOf is the text of a known fact.
func valueOf[T any](f policy.Fact[T], text string) string {
	if !f.Known {
		return ""
	}
	return text
}

// judge says what a policy permits on a machine with n slots.
func (w *why) judge(p *policy.Policy, f *policy.Facts, n int) {
	for i := range p.Rules {
		r := &p.Rules[i]
		w.Rules = append(w.Rules, whyRule{r.Line, r.Text, map[policy.Truth]string{policy.True: "yes",
			policy.False: "no", policy.Unknown: "unknown"}[r.Holds(f)]})
	}
	d := p.Decide(f, n)
	w.Now = fmt.Sprintf("permits %d of %d slots (%s)", d.Slots, n, d.Why())
}

func (w *why) print(name string) error {
	table := cli.NewTable("FACT", "VALUE", "SOURCE")
	for _, f := range w.Facts {
		table.Row(f.Name, orDash(f.Value), f.From)
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	if len(w.Rules) > 0 {
		fmt.Println()
		table = cli.NewTable("LINE", "HOLDS", "RULE")
		for _, r := range w.Rules {
			table.Row(r.Line, r.Holds, r.Text)
		}
		if err := table.Write(os.Stdout); err != nil {
			return err
		}
		fmt.Printf("\npolicy %s: now it %s, with a slot for each processor\n", name, w.Now)
	}
	if w.Agent == nil {
		_, err := fmt.Println("\nNo agent with a policy has run here: 'skep join --policy NAME' starts one.")
		return err
	}
	_, err := fmt.Printf("\nagent, since %s: %s; %d running\n", w.Agent.Time.Local().Format("2006-01-02 15:04:05"), w.Agent, w.Agent.Running)
	return err
}
