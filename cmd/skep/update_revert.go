// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/internal/cli"
	"skep/internal/uapi"
)

type updateCommit struct{}

func (u *updateCommit) options(*cli.Flags) {}

func (u *updateCommit) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := oneUpdate(f, words)
	if err != nil {
		return err
	}
	return withDevice(func(d *update.Device) error {
		if err := d.Commit(name); err != nil {
			return err
		}
		if _, err := fmt.Printf("%s: committed\n", name); err != nil {
			return err
		}
		return keepUpdate(d, name)
	})
}

type updateRevert struct {
	wait   time.Duration
	remove bool
	to     string
	exist  string
	order  bool // of operators, which is always obeyed
}

func (u *updateRevert) options(f *cli.Flags) {
	f.DurationVar(&u.wait, "wait", 30*time.Second, "wait at most this `TIME` for calls that are inside")
	f.BoolVar(&u.remove, "remove", false, "then unload it")
	f.StringVar(&u.exist, "objects-exist", "", "the `REASON` why objects do no harm that the update's code has set up; without it the revert of an update that was built with --state is refused while they may exist")
	f.StringVar(&u.to, "to", "", "in the same step, put the `OLDER` update in force again that it superseded")
}

func (u *updateRevert) run(ctx context.Context, f *cli.Flags, words []string) error {
	if u.wait < 0 {
		return f.Usagef("--wait takes a time, as 30s, or 0")
	}
	if err := cleanReason(f, &u.exist); err != nil {
		return err
	}
	if len(words) == 1 && strings.HasSuffix(words[0], revertSuffix) {
		name, err := obeyOrder(words[0])
		if err != nil {
			return updateError(err)
		}
		words, u.order = []string{name}, true
	}
	if f.Given("to") && (u.to == "" || len(words) == 1 && u.to == words[0]) {
		return f.Usagef("--to takes the name of the older update")
	}
	name, err := oneUpdate(f, words)
	if err != nil {
		return err
	}
	if off, err := forgetOff(name); off || err != nil {
		return err
	}
	return withDevice(func(d *update.Device) error {
		if err := u.end(ctx, d, name); err != nil {
			return err
		}
		done := progressOf("waiting for the last users of " + name)
		left, err := update.WaitDrained(ctx, d, name, u.wait)
		done()
		if err != nil {
			return err
		}
		if !left {
			return stillInside(d, name)
		}
		if done, err := removeReverted(d, name, u.remove); done || err != nil {
			return err
		}
		s, err := update.FindStatus(d, name, update.Names{})
		if err != nil {
			return err
		}
		if s.Held != "" {
			_, err = fmt.Printf("%s: left; it is held, and stays loaded until the next boot: 'skep update status %s' says why\n", name, name)
			return err
		}
		_, err = fmt.Printf("%s: left; 'skep update remove %s' unloads it\n", name, name)
		return err
	})
}

// forgetOff removes a stored update that was turned off and is not loaded, and reports
// whether it was so.
func forgetOff(name string) (bool, error) {
	keep := newKeep()
	if on, err := keep.IsOn(); err != nil || !on || keep.WhyOff(name) == nil {
		return false, nil // who may not read it is refused by the kernel
	}
	if d, err := update.Open(); err == nil {
		loaded, err := update.HasUpdate(d, name)
		if err = errors.Join(err, d.Close()); err != nil || loaded {
			return false, err
		}
	}
	if err := keep.Forget(name); err != nil {
		return false, err
	}
	_, err := fmt.Printf("%s: it was turned off, and is forgotten\n", name)
	return true, err
}

// removeReverted unloads a reverted update, if that is wanted. The agent may do so first, if
// a roll loaded it. It reports whether the update is unloaded.
func removeReverted(d update.Source, name string, wanted bool) (bool, error) {
	err := error(nil)
	if wanted {
		err = update.Remove(d, name)
	}
	if err != nil || !wanted {
		loaded, lookErr := update.HasUpdate(d, name)
		if lookErr != nil || loaded {
			return false, errors.Join(err, lookErr)
		}
	}
	_, err = fmt.Printf("%s: unloaded\n", name)
	return true, err
}

// end reverts an update, to the older one or to the kernel's own functions.
func (u *updateRevert) end(ctx context.Context, d *update.Device, name string) error {
	exist := u.exist != "" || u.order
	if u.to == "" {
		err := d.Revert(name, exist)
		if s, look := update.FindStatus(d, name, update.Names{}); err != nil && look == nil && s.State != uapi.DynamosLoaded.String() {
			return err // it stays in force, and so over a boot
		}
		return errors.Join(err, forgetUpdate(name))
	}
	if err := update.GoBack(ctx, update.ThisKernel{Device: d}, newKeep(), name, u.to, exist); err != nil {
		return err
	}
	if _, err := fmt.Printf("%s: committed again\n", u.to); err != nil {
		return err
	}
	// The first stores the newer one for the way back from here, if it can.
	return errors.Join(keepUpdate(d, u.to), forgetUpdate(name))
}

// stillInside lists the tasks that a draining update waits for.
func stillInside(d update.Source, name string) error {
	s, err := update.FindStatus(d, name, updateNames())
	if err != nil {
		return err
	}
	list := []update.Status{s}
	if err := update.FillInside("/proc", list); err != nil {
		return err
	}
	var inside []update.Task
	for _, t := range list[0].Inside {
		if t.Version != "old" {
			inside = append(inside, t)
		}
	}
	switch {
	case len(inside) > 0:
	case s.Class == uapi.DynamosObject.String():
		return fmt.Errorf("%s is being reverted: new objects use the older version, and the revert completes when the objects that use the new one are freed", name)
	default:
		return fmt.Errorf("%s is being reverted: new calls run the older version, and the revert completes when a running task returns from the new one", name)
	}
	if err := insideTable(inside).Write(os.Stderr); err != nil {
		return err
	}
	return fmt.Errorf("%s is being reverted: new calls run the older version, and the revert completes when these tasks return from the new one", name)
}

type updateRemove struct{}

func (u *updateRemove) options(*cli.Flags) {}

func (u *updateRemove) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := oneUpdate(f, words)
	if err != nil {
		return err
	}
	return withDevice(func(d *update.Device) error {
		return removeUpdate(d, name)
	})
}

func removeUpdate(d *update.Device, name string) error {
	if err := errors.Join(update.Remove(d, name), forgetUpdate(name)); err != nil {
		return err
	}
	_, err := fmt.Printf("%s: unloaded\n", name)
	return err
}
