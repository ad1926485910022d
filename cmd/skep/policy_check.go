// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"skep/grid/policy"
	"skep/internal/cli"
)

type policyCheck struct{}

func (*policyCheck) options(*cli.Flags) {}

func (*policyCheck) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a FILE or one of the policies always, desk, share is expected")
	}
	if len(words) > 1 {
		return f.RefuseArgs(words[1:])
	}
	p, err := readPolicy(words[0])
	if err != nil {
		return cli.WithCode(cli.Usage, err)
	}
	return explainPolicy(os.Stdout, p)
}

// explainPolicy prints a policy, and in words what its last lines mean.
func explainPolicy(w io.Writer, p *policy.Policy) error {
	table := cli.NewTable("LINE", "SLOTS", "WHEN")
	for i := range p.Rules {
		r := &p.Rules[i]
		table.Row(r.Line, amountText(r.Use), whenText(r))
	}
	if last := p.Rules[len(p.Rules)-1]; len(last.When) > 0 {
		table.Row("-", "none", "otherwise")
	}
	if err := table.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "A call that has been paused for %s goes back to the hub. More slots are used after %s.\n",
		policy.FormatDuration(p.Pause), policy.FormatDuration(p.Settle))
	return err
}

func amountText(a policy.Amount) string {
	switch {
	case a.Percent == 100:
		return "all"
	case a.Percent > 0:
		return fmt.Sprintf("%g%%", a.Percent)
	case a.Slots == 0:
		return "none"
	}
	return fmt.Sprint(a.Slots)
}

func whenText(r *policy.Rule) string {
	text := ""
	for i := range r.When {
		if i > 0 {
			text += " and "
		}
		text += r.When[i].String()
	}
	if text == "" {
		return "always"
	}
	return text
}
