// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

// calls lists the calls that have not ended.
type calls struct {
	state string
	json  bool
}

func (l *calls) options(f *cli.Flags) {
	f.StringVar(&l.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&l.json, "json", false, "print JSON, for programs")
}

// oneWord returns the word that may be given, or an empty string.
func oneWord(f *cli.Flags, words []string) (string, error) {
	if len(words) == 0 {
		return "", nil
	}
	if words[0] == "" {
		return "", f.Usagef("an empty word names nothing")
	}
	return words[0], f.RefuseArgs(words[1:])
}

func (l *calls) run(ctx context.Context, f *cli.Flags, words []string) error {
	session, err := oneWord(f, words)
	if err != nil {
		return err
	}
	c, err := openControl(l.state)
	if err != nil {
		return err
	}
	list, err := c.Calls(ctx, session)
	if err != nil {
		return withExitCode(err)
	}
	if l.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("CALL", "FUNCTION", "STATE", "NODE", "RUN", "ARGUMENTS", "SINCE", "PROGRAM", "USER", "SESSION")
	for _, i := range list.List {
		table.Row(i.Call, i.Function, i.State, orDash(strings.Join(i.Nodes, ",")), i.Attempt, cli.FormatBytes(i.Arguments),
			cli.FormatAgo(i.Began), i.Run, orDash(i.User), i.Session)
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	if more := list.All - len(list.List); more > 0 {
		fmt.Fprintf(os.Stderr, "skep: %d calls that are newer are not listed\n", more)
	}
	return nil
}

// cancel ends calls.
type cancel struct {
	state, session string
}

func (l *cancel) options(f *cli.Flags) {
	f.StringVar(&l.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.StringVar(&l.session, "session", "", "end all calls that `SESSION` has now, in place of one call")
}

func (l *cancel) run(ctx context.Context, f *cli.Flags, words []string) error {
	word, err := oneWord(f, words)
	if err != nil {
		return err
	}
	if (word == "") == (l.session == "") {
		return f.Expectf("give the number of a call, or --session: 'skep calls' lists both")
	}
	id, err := callNumber(f, word)
	if err != nil {
		return err
	}
	c, err := openControl(l.state)
	if err != nil {
		return err
	}
	var done hub.CancelAnswer
	if word != "" {
		done, err = c.CancelCall(ctx, id)
	} else {
		done, err = c.CancelCalls(ctx, l.session)
	}
	if err != nil {
		return withExitCode(err)
	}
	_, err = fmt.Printf("cancelled: %d\n", done.Cancelled)
	return err
}

// callNumber returns 0 for no word.
func callNumber(f *cli.Flags, word string) (uint64, error) {
	if word == "" {
		return 0, nil
	}
	id, err := strconv.ParseUint(word, 10, 64)
	if err != nil || id == 0 {
		return 0, f.Usagef("%q is not the number of a call: 'skep calls' lists them", word)
	}
	return id, nil
}

// ledger shows what the hub has stored of calls.
type ledger struct {
	state, session string
	last           int
	json           bool
}

const ledgerMost = 10000 // that the hub reads

func (l *ledger) options(f *cli.Flags) {
	f.StringVar(&l.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.StringVar(&l.session, "session", "", "only entries of the sessions that begin with `SESSION`")
	f.IntVar(&l.last, "last", 100, "the last `N` entries, at most 10000")
	f.BoolVar(&l.json, "json", false, "print JSON, for programs")
}

func (l *ledger) run(ctx context.Context, f *cli.Flags, words []string) error {
	word, err := oneWord(f, words)
	if err != nil {
		return err
	}
	if l.last < 1 || l.last > ledgerMost {
		return f.Usagef("--last %d is not a number from 1 to %d", l.last, ledgerMost)
	}
	id, err := callNumber(f, word)
	if err != nil {
		return err
	}
	c, err := openControl(l.state)
	if err != nil {
		return err
	}
	list, err := c.Ledger(ctx, hub.LedgerQuery{Last: l.last, Call: id, Session: l.session})
	if err != nil {
		return withExitCode(err)
	}
	if id != 0 && len(list) == 0 {
		return fmt.Errorf("the last %d entries of the ledger have none of call %d: it is older, or there was no such call", ledgerMost, id)
	}
	if l.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("TIME", "CALL", "STATE", "NODE", "TEXT", "SESSION")
	for _, e := range list {
		node := e.Name
		if node == "" {
			node = e.Node
		}
		call := strconv.FormatUint(e.Call, 10)
		if e.Call == 0 {
			call = "object"
		}
		table.Row(e.Time.Local().Format(time.DateTime), call, e.State, orDash(node), e.Text, e.Session)
	}
	return table.Write(os.Stdout)
}
