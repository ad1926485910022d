// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"skep/grid/hub"
	"skep/grid/ident"
	"skep/grid/proto"
	"skep/internal/cli"
)

func userWords() []command {
	return []command{
		{name: "user add", usage: "user add [--share N] [--slots N] [--quota SIZE] [--expires TIME] [--state DIR] NAME", runner: &userAdd{},
			summary: "let a user submit to the hub that runs here; prints a command for the user's machine"},
		{name: "user join", usage: "user join [--token TOKEN | --token-file FILE] [--state DIR] HOST:PORT", runner: &userJoin{},
			summary: "open an account of a hub on this machine"},
		{name: "user list", usage: "user list [--json] [--state DIR]", runner: &userList{},
			summary: "list users, what they may have, and what they use"},
		{name: "user set", usage: "user set [--share N] [--slots N] [--quota SIZE] [--state DIR] NAME", runner: &userSet{},
			summary: "change what a user may have"},
		{name: "user token", usage: "user token [--expires TIME] [--state DIR] NAME", runner: &userToken{},
			summary: "print a command that opens an account on one more machine"},
		{name: "user remove", usage: "user remove [--state DIR] NAME", runner: &userRemove{},
			summary: "end an account and its runs"},
	}
}

// accountState is the folder of a user's account in a state directory.
func accountState(state string) string { return filepath.Join(state, "account") }

// openAccount returns a client of the hub of which an account is in the state directory, or nil
// if there is none.
func openAccount(state string) (*hub.Client, error) {
	if !ident.HasUser(accountState(state)) {
		return nil, nil
	}
	user, err := ident.OpenUser(accountState(state))
	if err == nil {
		err = user.Why()
	}
	if err != nil {
		return nil, cli.WithCode(cli.Refused, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewIn)
	defer cancel()
	if err := hub.RenewUser(ctx, user, time.Now()); err != nil {
		fmt.Fprintf(os.Stderr, "skep: the certificate of this account was not renewed, and is valid until %s: %v\n", user.Expires().Format(time.DateOnly), err)
	}
	return hub.NewUserClient(user), nil
}

const renewIn = 20 * time.Second

// refuseAccount refuses what needs a state directory without an account.
func refuseAccount(dir string) error {
	if !ident.HasUser(accountState(dir)) {
		return nil
	}
	return cli.Errorf(cli.Refused, "%s has an account of another hub, to which all commands with this state directory go: give --state, or remove %s", dir, accountState(dir))
}

// userTerms are the options that say what a user may have.
type userTerms struct{ request hub.UserRequest }

func (t *userTerms) options(f *cli.Flags) {
	number := func(to **int, name, usage string, least int) {
		f.Func(name, usage, func(text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least {
				return fmt.Errorf("want a number from %d", least)
			}
			*to = &n
			return nil
		})
	}
	number(&t.request.Share, "share", "its weight among the users whose calls wait, `N` from 1 to 1000 (1)", 1)
	number(&t.request.Slots, "slots", "run at most `N` of its calls at a time, on all nodes together; 0: no limit", 0)
	f.Func("quota", "store at most `SIZE` for it at a time; 0: no limit but the hub's", func(text string) error {
		n, err := cli.ParseBytes(text)
		t.request.Bytes = &n
		return err
	})
}

// oneName returns the name of a user.
func oneName(f *cli.Flags, words []string) (string, error) {
	word, err := oneWord(f, words)
	if err == nil && word == "" {
		err = f.Expectf("the name of a user is expected")
	}
	return word, err
}

type userAdd struct {
	userTerms
	state   string
	expires time.Duration
}

func (u *userAdd) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.DurationVar(&u.expires, "expires", defaultExpiry, "let the printed command expire after `TIME` (24h)")
	u.userTerms.options(f)
}

func (u *userAdd) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, c, err := u.open(f, words)
	if err != nil {
		return err
	}
	u.request.Name, u.request.Life = name, u.expires
	answer, err := c.AddUser(ctx, u.request)
	return printAccount(name, answer, err)
}

func (u *userAdd) open(f *cli.Flags, words []string) (string, *hub.Client, error) {
	name, err := oneName(f, words)
	if err != nil {
		return "", nil, err
	}
	if err := checkToken(f, 1, u.expires); err != nil {
		return "", nil, err
	}
	c, err := openControl(u.state)
	return name, c, err
}

// printAccount prints the command that opens an account. As in a join command, its secret is in
// the environment.
func printAccount(name string, answer hub.TokenAnswer, err error) error {
	if err != nil {
		return withExitCode(err)
	}
	if _, err := fmt.Printf("%s=%s skep user join %s\n", tokenVariable, answer.Token, answer.Address); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "skep: the token is a secret that opens the account %s once; --token-file FILE reads the line above\n", name)
	return nil
}

type userToken struct{ userAdd }

func (u *userToken) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.DurationVar(&u.expires, "expires", defaultExpiry, "let the printed command expire after `TIME` (24h)")
}

func (u *userToken) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, c, err := u.open(f, words)
	if err != nil {
		return err
	}
	answer, err := c.UserToken(ctx, hub.UserRequest{Name: name, Life: u.expires})
	return printAccount(name, answer, err)
}

type userSet struct {
	userTerms
	state string
}

func (u *userSet) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	u.userTerms.options(f)
}

func (u *userSet) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, err := oneName(f, words)
	if err != nil {
		return err
	}
	if u.request == (hub.UserRequest{}) {
		return f.Expectf("say what is to change: --share, --slots or --quota")
	}
	c, err := openControl(u.state)
	if err != nil {
		return err
	}
	u.request.Name = name
	return withExitCode(c.SetUser(ctx, u.request))
}

type userRemove struct{ state string }

func (u *userRemove) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (u *userRemove) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, err := oneName(f, words)
	if err != nil {
		return err
	}
	c, err := openControl(u.state)
	if err != nil {
		return err
	}
	return withExitCode(c.RemoveUser(ctx, name))
}

type userList struct {
	state string
	json  bool
}

func (u *userList) options(f *cli.Flags) {
	f.StringVar(&u.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
}

func (u *userList) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(u.state)
	if err != nil {
		return err
	}
	list, err := c.Users(ctx)
	if err != nil {
		return withExitCode(err)
	}
	if u.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("NAME", "SHARE", "SLOTS", "QUOTA", "STORED", "RUNNING", "WAITING", "SESSIONS", "MACHINES")
	for _, i := range list {
		slots, quota := "-", "-"
		if i.Slots > 0 {
			slots = strconv.Itoa(i.Slots)
		}
		if i.Bytes > 0 {
			quota = cli.FormatBytes(i.Bytes)
		}
		table.Row(i.Name, i.Share, slots, quota, cli.FormatBytes(i.Stored), i.Running, i.Waiting, i.Sessions, i.Machines)
	}
	return table.Write(os.Stdout)
}

// userJoin opens an account on this machine.
type userJoin struct{ token, tokenFile, state string }

func (u *userJoin) options(f *cli.Flags) {
	f.StringVar(&u.token, "token", "", "the `TOKEN` that skep user add printed; other users can see it on a command line")
	f.StringVar(&u.tokenFile, "token-file", "", "read the token from `FILE`, or from standard input with -; or set SKEP_TOKEN")
	f.StringVar(&u.state, "state", "", "keep the account in `DIR`")
}

func (u *userJoin) run(ctx context.Context, f *cli.Flags, words []string) error {
	token, err := readToken(f, u.token, u.tokenFile, os.Stdin)
	if err != nil {
		return err
	}
	address, err := oneWord(f, words)
	if err == nil && (address == "" || token == "") {
		err = f.Expectf("the hub's HOST:PORT and a token are expected, as 'skep user add' prints them")
	}
	if err != nil {
		return err
	}
	address = withPort(address)
	dir, err := stateDir(u.state)
	if err != nil {
		return err
	}
	if _, err := os.Stat(hubState(dir)); err == nil {
		return cli.Errorf(cli.Refused, "%s has the state of a hub, which commands with it reach: give another --state for the account", dir)
	}
	user, err := ident.OpenUser(accountState(dir))
	if err != nil {
		return err
	}
	if _, err := ident.ParseToken(token); err != nil {
		return cli.WithCode(cli.Usage, err)
	}
	if err := hub.Login(ctx, user, address, token); err != nil {
		if p := (*proto.Problem)(nil); errors.As(err, &p) {
			return withExitCode(p)
		}
		return withExitCode(err)
	}
	fmt.Printf("this machine submits to the hub at %s as %s\n", address, user.Admission().Name)
	return nil
}
