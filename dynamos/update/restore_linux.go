// SPDX-License-Identifier: MIT

package update

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skep/internal/uapi"
)

// A Kernel is the interface by which Restore restores updates.
type Kernel interface {
	Source
	BuildID() (string, error)
	HasModule(name string) (bool, error)
	Load(name string, module []byte) (fresh bool, err error)
	Apply(ctx context.Context, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error)
	Commit(name string) error
}

// ThisKernel is the running kernel.
type ThisKernel struct{ *Device }

// BuildID returns the running kernel's build-id.
func (ThisKernel) BuildID() (string, error) { return RunningBuildID("/sys") }

// Load loads a module.
func (t ThisKernel) Load(name string, module []byte) (bool, error) {
	return Load(t.Device, name, module)
}

// Apply puts an update on trial.
func (t ThisKernel) Apply(ctx context.Context, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	return Apply(ctx, t.Device, name, a)
}

// A Restore restores stored updates. It puts them on trial, and commits them after
// the machine has run with them for a while.
type Restore struct {
	Keep   *Keep
	Kernel Kernel
	BootID string
	Settle time.Duration
	Retry  bool // restore also those that were turned off
	Says   func(format string, args ...any)
	Ready  func() // called when Begin has done what it can

	tried []string // on trial, or committed by an earlier run
	waits bool     // one is on trial
	boot  Boot     // the mark of this boot
	build string   // of the kernel
	left  error    // why updates do not come back
}

// confirmMargin is added to the trial's time limit in the kernel, which reverts all
// updates if this program dies before it commits them.
const confirmMargin = time.Minute

// Run returns when the updates are committed, or when ctx ends because the machine
// shuts down.
func (r *Restore) Run(ctx context.Context) error {
	if err := r.Begin(ctx); err != nil {
		return err
	}
	return errors.Join(r.Finish(ctx), r.End())
}

// End removes the mark of this boot. Nobody watches it any more, or the machine shuts down.
func (r *Restore) End() error { return r.Keep.EndBoot(&r.boot) }

// Begin puts the updates on trial. If it fails, none comes back in this boot; why a single
// one does not, Finish returns.
func (r *Restore) Begin(ctx context.Context) error {
	defer r.Ready()
	if r.Retry {
		r.left = r.Keep.TurnOn()
	}
	err := error(nil)
	if r.build, err = r.Kernel.BuildID(); err != nil {
		return err
	}
	if r.boot, err = r.Keep.BeginBoot(r.BootID, r.build, time.Now()); err != nil {
		return fmt.Errorf("no update is restored, because this boot cannot be marked: %w", err)
	}
	list, err := r.Keep.List()
	if err != nil {
		r.left = errors.Join(r.left, err)
		r.Says("left out: %v", err)
	}
	for i := range list {
		if list[i].containedIn(r.build) {
			r.Says("%s: this kernel contains the change", list[i].Name)
			continue
		}
		if err := r.applyKept(ctx, &list[i]); err != nil {
			r.left = errors.Join(r.left, fmt.Errorf("%s does not come back: %w", list[i].Name, err))
			continue
		}
		r.tried = append(r.tried, list[i].Name)
	}
	return nil
}

// Finish commits the updates when the machine has run with them for a while. It returns
// why updates do not come back. If ctx ends first, because the machine shuts down, it
// commits nothing.
func (r *Restore) Finish(ctx context.Context) error {
	settle := r.Settle
	if !r.waits {
		settle = 0
	}
	select {
	case <-ctx.Done():
		return r.left
	case <-time.After(settle):
	}
	for _, name := range r.tried {
		r.left = errors.Join(r.left, r.commitKept(name))
	}
	return errors.Join(r.left, r.Keep.MarkBoot(&r.boot, r.build, Settled))
}

// markEvery is how often Stay looks which updates are in force.
const markEvery = 5 * time.Minute

// Stay keeps the mark of this boot until ctx ends, because the machine shuts down. up
// returns how long it runs.
func (r *Restore) Stay(ctx context.Context, up func() time.Duration) error {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	last := ""
	for ctx.Err() == nil {
		stage := Settled
		if up() >= bootDay {
			stage = Aged
		}
		text := ""
		if err := r.Keep.MarkBoot(&r.boot, r.build, stage); err != nil {
			text = err.Error()
		}
		if text != "" && text != last {
			r.Says("this boot cannot be marked: %s", text)
		}
		last = text
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return r.End()
}

// applyKept loads one update and puts it on trial.
func (r *Restore) applyKept(ctx context.Context, k *Kept) error {
	if r.build != k.BuildID {
		return refusef("it was committed on another kernel, whose build-id is %s", k.BuildID)
	}
	if k.Off != nil {
		return refusef("%s: 'skep service restore --retry' tries again, 'skep update revert %s' forgets it", k.Off.Why, k.Name)
	}
	if i, err := findInfo(r.Kernel, k.Name); err == nil && (i.State == uapi.DynamosTrial || i.State == uapi.DynamosCommitted) {
		r.waits = r.waits || i.State == uapi.DynamosTrial
		return nil // an earlier run of this command applied it
	}
	about, module, err := r.Keep.open(k)
	if err != nil {
		return err
	}
	if err := CheckObjects(r.Kernel.HasModule, k.Name, about, k.ObjectsExist); err != nil {
		return err
	}
	if err := k.numberCgroups(CgroupID); err != nil {
		return err
	}
	if _, err := r.Kernel.Load(k.Name, module); err != nil {
		return err
	}
	a := uapi.DynamosApply{Policy: k.Policy, Health: k.Health, Flags: existFlag(k.ObjectsExist),
		ConfirmMS: uint32((r.Settle + confirmMargin).Milliseconds()), EnterMS: uint32(time.Minute.Milliseconds())}
	if _, err := r.Kernel.Apply(ctx, k.Name, &a); err != nil {
		return err
	}
	r.waits = true
	r.Says("%s: on trial for %v", k.Name, r.Settle)
	return nil
}

// commitKept commits an update that is still on trial, and removes a stored update
// that the kernel has reverted.
func (r *Restore) commitKept(name string) error {
	i, err := findInfo(r.Kernel, name)
	switch {
	case err != nil:
		return err
	case i.State == uapi.DynamosCommitted:
		return nil
	case i.State != uapi.DynamosTrial:
		return errors.Join(fmt.Errorf("%s was reverted, and is not restored again: %s", name, uapi.Text(i.End[:])), r.Keep.Forget(name))
	}
	if err := r.Kernel.Commit(name); err != nil {
		return err
	}
	r.Says("%s: committed", name)
	return nil
}
