// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// updateServe is the build service.
type updateServe struct{ listen, dir string }

func (u *updateServe) options(f *cli.Flags) {
	f.StringVar(&u.listen, "listen", "127.0.0.1:4870", "listen on this `HOST:PORT`")
	f.StringVar(&u.dir, "dir", "", "keep what was built in `DIR` (builds in the state directory)")
}

// buildPackage builds a package once more. Tests have another one.
var buildPackage = func(ctx context.Context, p *pack.Package, kernel string) (*pack.Package, error) {
	return update.Rebuild(ctx, p, kernel, os.Stderr, update.Build)
}

func (u *updateServe) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if exists, err := newTrust().Exists(); err != nil || !exists {
		return errors.Join(updateError(err), cli.Errorf(cli.Refused, "this machine has no operators' keys, and the service builds only what operators signed: 'skep update keys trust' pins them"))
	}
	if u.dir == "" {
		state, err := cli.StateDir()
		if err != nil {
			return err
		}
		u.dir = filepath.Join(state, "builds")
	}
	b := &update.Builds{Dir: u.dir, Version: version + " " + commit, Keys: newTrust().Load, Now: trustNow, Build: buildPackage,
		Log: func(format string, args ...any) {
			fmt.Fprintln(os.Stderr, "skep: "+cli.CleanText(fmt.Sprintf(format, args...)))
		}}
	if err := b.Open(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", u.listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Printf("builds packages at http://%s\n", l.Addr()); err != nil {
		return err
	}
	s := &http.Server{Handler: b.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	go b.Run(ctx)
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// updateBuilds asks a build service.
type updateBuilds struct {
	at, get, offer, out string
	take, json          bool
}

func (u *updateBuilds) options(f *cli.Flags) {
	f.StringVar(&u.at, "at", "", "the build service's `URL`")
	f.StringVar(&u.get, "get", "", "write the package with this `KEY` to a file")
	f.StringVar(&u.out, "o", "", "with --get: to this `FILE` (KEY"+pack.Suffix+")")
	f.StringVar(&u.offer, "offer", "", "give the service the signed package, or the statement of skep update sign --included, in `FILE`")
	f.BoolVar(&u.take, "take", false, "as root of a node: ask for the committed updates of another kernel, and take what operators signed")
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
}

func (u *updateBuilds) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	n := 0
	for _, given := range []bool{u.get != "", u.offer != "", u.take, u.json} {
		if given {
			n++
		}
	}
	if u.at == "" || n > 1 || u.out != "" && u.get == "" {
		return f.Usagef("give --at URL, and one of --get, --offer, --take and --json")
	}
	c := &update.BuildClient{URL: u.at}
	switch {
	case u.get != "":
		return updateError(u.getPackage(ctx, c))
	case u.offer != "":
		return updateError(u.give(ctx, c))
	case u.take:
		return updateError(takeBuilds(ctx, c, func(format string, args ...any) { fmt.Println(cli.CleanText(fmt.Sprintf(format, args...))) }))
	}
	list, err := c.List(ctx)
	if err != nil {
		return updateError(err)
	}
	if u.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("UPDATE", "KERNEL", "STATE", "KEY", "WHY")
	for _, one := range list {
		table.Row(one.Name, one.Kernel, one.State, one.Key, orDash(one.Why))
	}
	return table.Write(os.Stdout)
}

// give offers a signed package, or the statement that a kernel needs none.
func (u *updateBuilds) give(ctx context.Context, c *update.BuildClient) error {
	if strings.HasSuffix(u.offer, includedSuffix) {
		text, err := os.ReadFile(u.offer)
		if err != nil {
			return err
		}
		one, err := c.State(ctx, text)
		if err == nil {
			_, err = fmt.Printf("%s: signed that Linux %s contains it\n", one.Name, cli.CleanText(one.Kernel))
		}
		return err
	}
	_, text, err := readPackage(u.offer)
	if err != nil {
		return err
	}
	one, err := c.Offer(ctx, text)
	if err == nil {
		_, err = fmt.Printf("%s: signed for Linux %s\n", one.Name, cli.CleanText(one.Kernel))
	}
	return err
}

func (u *updateBuilds) getPackage(ctx context.Context, c *update.BuildClient) error {
	text, err := c.Get(ctx, u.get)
	if err != nil {
		return err
	}
	if u.out == "" {
		u.out = filepath.Base(u.get) + pack.Suffix
	}
	if err := atomicfile.Write(u.out, text, 0o644); err != nil {
		return err
	}
	_, err = fmt.Printf("%s: compare it with your own build before you sign it\n", u.out)
	return err
}

// runningKernel returns the kernel's build-id and its package's version. Tests have another one.
var runningKernel = func() (id, version string, err error) {
	if id, err = update.RunningBuildID("/sys"); err == nil {
		version, err = update.RunningVersion()
	}
	return id, version, err
}

// restoredTrial is the longest trial that a package from a build service needs.
const restoredTrial = 5 * time.Minute

// takeBuilds takes what operators signed for the kernel that runs now.
func takeBuilds(ctx context.Context, c *update.BuildClient, says func(string, ...any)) error {
	if exists, err := newTrust().Exists(); err != nil || !exists {
		return errors.Join(err, &trust.Refusal{Name: trust.Unpinned, Why: "this node has no operators' keys, so it takes nothing from a build service: 'skep update keys trust' pins them"})
	}
	id, version, err := runningKernel()
	if err != nil {
		return err
	}
	t := &update.Taker{Keep: newKeep(), Client: c, BuildID: id, Kernel: version, Says: says,
		Approve: func(p *pack.Package, policy *uapi.DynamosPolicy) error {
			return approvePackage(p, policy, restoredTrial)
		},
		Included: func(document []byte, f *trust.Facts) ([]string, error) { return approveIncluded(document, f, id) }}
	return t.Take(ctx)
}
