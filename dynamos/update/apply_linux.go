// SPDX-License-Identifier: MIT

package update

import (
	"context"
	"fmt"
	"strings"
	"time"

	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// ModuleFor returns a package's module for the running kernel.
func ModuleFor(p *pack.Package) ([]byte, error) {
	running, err := RunningBuildID("/sys")
	if err != nil {
		return nil, err
	}
	return moduleOf(p, running)
}

// moduleOf returns a package's module for the kernel with this build-id.
func moduleOf(p *pack.Package, running string) ([]byte, error) {
	if k, ok := p.Kernel(running); ok {
		return p.Modules[k.BuildID], nil
	}
	var list []string
	for _, k := range p.Kernels {
		list = append(list, fmt.Sprintf("%s (%s)", k.Release, k.Version))
	}
	return nil, refusef("the package is not for this kernel, whose build-id is %s; it is for %s: build it for this one with 'skep update build'",
		running, strings.Join(list, ", "))
}

// pollEvery is the interval at which a state is polled.
const pollEvery = 50 * time.Millisecond

// waitUntil polls an update until done returns true. After the limit it returns false.
func waitUntil(ctx context.Context, d Source, name string, limit time.Duration, done func(*uapi.DynamosInfo) bool) (uapi.DynamosInfo, bool, error) {
	over := time.After(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		i, err := findInfo(d, name)
		if err != nil || done(&i) {
			return i, err == nil, err
		}
		select {
		case <-ctx.Done():
			return i, false, ctx.Err()
		case <-over:
			return i, false, nil
		case <-tick.C:
		}
	}
}

// undoTime is the time that the kernel gets to reverse a transition.
const undoTime = time.Minute

// Apply puts a loaded update on trial. If its class needs a transition of tasks, Apply waits for the end of it.
func Apply(ctx context.Context, d *Device, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	if err := putName(&a.Name, name); err != nil {
		return uapi.DynamosInfo{}, err
	}
	if err := d.Apply(a); err != nil {
		return uapi.DynamosInfo{}, err
	}
	return awaitEntered(ctx, d, name, time.Duration(a.EnterMS)*time.Millisecond+undoTime)
}

// awaitEntered waits for the end of a transition.
func awaitEntered(ctx context.Context, s Source, name string, limit time.Duration) (uapi.DynamosInfo, error) {
	i, done, err := waitUntil(ctx, s, name, limit, func(i *uapi.DynamosInfo) bool {
		return i.State != uapi.DynamosEntering
	})
	switch {
	case err != nil:
		return i, err
	case !done:
		return i, refusef("%s: not all tasks have changed over yet; 'skep update status %s' tells", name, name)
	case i.State == uapi.DynamosLoaded, i.State == uapi.DynamosLeaving:
		return i, refusef("%s was reverted at once: %s", name, uapi.Text(i.End[:]))
	}
	return i, nil
}

// WaitDrained waits until no task is inside an update, as when somebody else, such as the
// agent in a roll, has unloaded it. It reports whether that happened within the limit.
func WaitDrained(ctx context.Context, d Source, name string, limit time.Duration) (bool, error) {
	_, left, err := waitUntil(ctx, d, name, limit, func(i *uapi.DynamosInfo) bool {
		return i.State == uapi.DynamosLoaded
	})
	if err != nil {
		if loaded, lookErr := HasUpdate(d, name); lookErr == nil && !loaded {
			return true, nil
		}
	}
	return left, err
}

// HasUpdate reports whether the kernel has an update of this name.
func HasUpdate(s Source, name string) (bool, error) {
	_, loaded, err := lookFor(s, name)
	return loaded, err
}

// findInfo finds an update by name.
func findInfo(s Source, name string) (uapi.DynamosInfo, error) {
	i, loaded, err := lookFor(s, name)
	if err == nil && !loaded {
		err = refusef("no update %q is loaded: 'skep update status' lists those that are", name)
	}
	return i, err
}

// lookFor finds an update by name. That it is not loaded is no error.
func lookFor(s Source, name string) (i uapi.DynamosInfo, loaded bool, err error) {
	list, err := AllInfos(s)
	if err != nil {
		return i, false, err
	}
	for _, i := range list {
		if uapi.Text(i.Name[:]) == name {
			return i, true, nil
		}
	}
	return i, false, nil
}

// FindStatus returns the status of one update, without its events and the tasks inside.
func FindStatus(s Source, name string, names Names) (Status, error) {
	i, err := findInfo(s, name)
	if err != nil {
		return Status{}, err
	}
	return statusOf(s, &i, names)
}
