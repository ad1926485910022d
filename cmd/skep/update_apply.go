// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/internal/cli"
	"skep/internal/uapi"
)

type updateApply struct {
	whom
	supersede      bool
	exist          string
	confirm, enter time.Duration
	health         watched
}

// watched holds the options of the health checks that revert an update automatically.
type watched struct {
	least, errors, latency uint
	stuck                  time.Duration
}

func (w *watched) options(f *cli.Flags) {
	f.UintVar(&w.errors, "max-errors", 0, "revert it at this many more errors `PER 1000` calls than the older version")
	f.UintVar(&w.latency, "max-latency", 0, "revert it if its median latency is longer by `PERCENT`")
	f.UintVar(&w.least, "least", 1000, "compare as soon as both versions have this many `CALLS`")
	f.DurationVar(&w.stuck, "stuck", 0, "report calls that take longer than `TIME`, such as 10s")
}

func (w *watched) encode(f *cli.Flags) (h uapi.DynamosHealth, err error) {
	if max(w.least, w.errors, w.latency) > math.MaxUint32-update.Longer || w.errors > 1000 || w.stuck < 0 {
		return h, f.Usagef("a limit is out of range: errors are per 1000, times not negative")
	}
	h = uapi.DynamosHealth{Least: uint32(w.least), Errors: uint32(w.errors), Stuck: uint64(w.stuck)}
	if w.latency > 0 {
		h.Latency = update.Longer + uint32(w.latency)
	}
	return h, nil
}

// existHelp is about an option of apply and of sign.
const existHelp = "the `REASON` why objects do no harm that lack what the update relies on; without it such an update is refused while they exist"

func (u *updateApply) options(f *cli.Flags) {
	u.whom.options(f)
	u.health.options(f)
	f.BoolVar(&u.supersede, "supersede", false, "older updates of the same functions leave when it is committed; if it is reverted, they stay")
	f.StringVar(&u.exist, "objects-exist", "", existHelp)
	f.DurationVar(&u.confirm, "confirm", 5*time.Minute, "revert it after this `TIME` without 'skep update commit'; 0: never")
	f.DurationVar(&u.enter, "enter", 30*time.Second, "class together: undo the transition if it takes longer than this `TIME`")
}

// apply reads the options.
func (u *updateApply) apply(f *cli.Flags, proc string) (a uapi.DynamosApply, err error) {
	if a.Policy, err = u.encode(f, proc); err != nil {
		return a, err
	}
	if a.Health, err = u.health.encode(f); err != nil {
		return a, err
	}
	confirm, enter := u.confirm.Milliseconds(), u.enter.Milliseconds()
	if min(confirm, enter) < 0 || max(confirm, enter) > math.MaxUint32 || u.enter <= 0 || u.confirm != 0 && confirm == 0 {
		return a, f.Usagef("--confirm and --enter take times up to 49 days, as 90s or 10m")
	}
	a.ConfirmMS, a.EnterMS = uint32(confirm), uint32(enter)
	if u.supersede {
		a.Flags = uapi.DynamosSupersede
	}
	if err := cleanReason(f, &u.exist); err != nil {
		return a, err
	}
	if u.exist != "" {
		a.Flags |= uapi.DynamosObjectsExist
	}
	return a, nil
}

// cleanReason checks the reason of --objects-exist.
func cleanReason(f *cli.Flags, reason *string) error {
	if *reason = strings.TrimSpace(*reason); *reason == "" && f.Given("objects-exist") || cli.CleanText(*reason) != *reason {
		return f.Usagef("--objects-exist takes a reason, in printable text")
	}
	return nil
}

func (u *updateApply) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a package or an update is expected")
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return err
	}
	a, err := u.apply(f, "/proc")
	if err != nil {
		return err
	}
	return withDevice(func(d *update.Device) error {
		name, fresh := words[0], false
		if isPackage(name) {
			name, fresh, err = u.loadPackage(d, words[0], &a.Policy)
		} else {
			err = approveAgain(name, &a.Policy, u.confirm)
		}
		if err != nil {
			return err
		}
		if err := newKeep().RememberExist(name, u.exist); err != nil {
			return err
		}
		i, err := update.Apply(ctx, d, name, &a)
		if err != nil {
			if fresh {
				err = errors.Join(err, update.Remove(d, name))
			}
			return err
		}
		return u.printResult(&i)
	})
}

// isPackage reports whether a word is a file name rather than the name of a loaded update.
func isPackage(word string) bool {
	return strings.HasSuffix(word, pack.Suffix) || strings.ContainsRune(word, '/')
}

// loadPackage loads a package's module, if the operators' keys of this machine permit it.
func (u *updateApply) loadPackage(d *update.Device, path string, policy *uapi.DynamosPolicy) (name string, fresh bool, err error) {
	p, text, err := readPackage(path)
	if err != nil {
		return "", false, err
	}
	module, err := update.ModuleFor(p)
	if err != nil {
		return "", false, err
	}
	if err := u.checkObjects(d, p); err != nil {
		return "", false, err
	}
	if err := update.ReadLockdown("/").Check(p.Name, module); err != nil {
		return "", false, err
	}
	if err := approvePackage(p, policy, u.confirm); err != nil {
		return "", false, err
	}
	fresh, err = update.Load(d, p.Name, module)
	if err == nil {
		rememberPackage(p.Name, text)
	}
	return p.Name, fresh, err
}

// checkObjects refuses a package while objects exist that lack what it relies on.
func (u *updateApply) checkObjects(d *update.Device, p *pack.Package) error {
	running, err := update.RunningBuildID("/sys")
	if err != nil {
		return err
	}
	k, _ := p.Kernel(running) // it is for this kernel, or it was refused
	return update.CheckObjects(update.ThisKernel{Device: d}.HasModule, p.Name, k, u.exist)
}

func (u *updateApply) printResult(i *uapi.DynamosInfo) error {
	name := uapi.Text(i.Name[:])
	if _, err := fmt.Printf("%s: on trial for %s\n", name, update.DescribePolicy(&i.Policy, updateNames())); err != nil {
		return err
	}
	if u.supersede {
		if _, err := fmt.Printf("older updates of its functions stay in force below it; 'skep update commit %s' ends them\n", name); err != nil {
			return err
		}
	}
	if u.confirm == 0 {
		return nil
	}
	_, err := fmt.Printf("it is reverted in %v, unless 'skep update commit %s' keeps it\n", u.confirm, name)
	return err
}
